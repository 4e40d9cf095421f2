"""What setup.cfg cannot say: the compiled part, which is left out where it cannot be built."""

import sys
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNEL = "spacy_elmo/bilm/kernel"


class BuildKernel(build_ext):
    """Leaves nothing behind where building fails: neither half a library nor an older one."""

    def build_extension(self, extension):
        in_place = [Path(path) for path in glob(f"{KERNEL}/_kernel.*.so")]
        built = Path(self.get_ext_fullpath(extension.name))
        for path in [*in_place, built]:
            path.unlink(missing_ok=True)
        try:
            super().build_extension(extension)
        except BaseException:
            built.unlink(missing_ok=True)
            raise


setup(
    cmdclass={"build_ext": BuildKernel},
    ext_modules=[
        Extension(
            f"{KERNEL.replace('/', '.')}._kernel",
            [f"{KERNEL}/kernel.c"],
            depends=sorted(glob(f"{KERNEL}/*.h")),
            extra_compile_args=["-O3", "-g0", "-ffp-contract=fast", "-Wno-psabi"],
            libraries=["dl"] if sys.platform == "linux" else [],
            optional=True,
            # The library has nothing of Python in it, so that it serves any version.
            py_limited_api=True,
        )
    ],
)
