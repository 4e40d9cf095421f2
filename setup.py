"""What setup.cfg cannot say: the compiled part, which is left out where it cannot be built."""

import sys
from glob import glob

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "spacy_elmo.bilm.kernel._kernel",
            ["spacy_elmo/bilm/kernel/kernel.c"],
            depends=sorted(glob("spacy_elmo/bilm/kernel/*.h")),
            extra_compile_args=["-O3", "-g0", "-ffp-contract=fast", "-Wno-psabi"],
            libraries=["dl"] if sys.platform == "linux" else [],
            optional=True,
            # The library has nothing of Python in it, so that it serves any version.
            py_limited_api=True,
        )
    ]
)
