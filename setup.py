"""What setup.cfg cannot say: the compiled part, which is left out where it cannot be built."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "spacy_elmo.bilm.kernel._lstm",
            ["spacy_elmo/bilm/kernel/lstm.c"],
            depends=["spacy_elmo/bilm/kernel/pass.h"],
            extra_compile_args=["-O3", "-g0", "-ffp-contract=fast", "-Wno-psabi"],
            optional=True,
            # The library has nothing of Python in it, so that it serves any version.
            py_limited_api=True,
        )
    ]
)
