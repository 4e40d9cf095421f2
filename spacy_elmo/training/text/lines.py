"""Lines of text, read so that no line can take more memory than it may."""

from typing import BinaryIO, Iterator, NamedTuple, Tuple, Union

BYTE_ORDER_MARK = "\ufeff"

_PIECE_BYTES = 1 << 16


class Fault(NamedTuple):
    """What is wrong with a file, and where.

    text (str): For instance ``line 3: a NUL character; expected UTF-8 text.``
    """

    text: str


def iter_lines(file: BinaryIO, max_line_bytes: int) -> Iterator[Tuple[int, Union[str, Fault]]]:
    """The lines of a UTF-8 file, without their ends and byte order marks.

    file (BinaryIO): A buffered reader.
    max_line_bytes (int): Longest line that is taken, its end not counted.
    YIELDS (Tuple[int, Union[str, Fault]]): The number of each line, counted from 1, and the line
        or what is wrong with it. Nothing follows a NUL character.
    """
    number = 0
    # Two bytes more than a line may have, for its end.
    while line := file.readline(max_line_bytes + 2):
        number += 1
        if b"\0" in line:
            problem = "a NUL character (0x00), as binary data have it; expected UTF-8 text."
            yield number, Fault(f"line {number}: {problem}")
            return
        text = line.rstrip(b"\r\n")
        if len(text) > max_line_bytes:
            while line and not line.endswith(b"\n"):
                line = file.readline(_PIECE_BYTES)
            problem = f"more than max_line_bytes = {max_line_bytes} bytes; expected shorter lines."
            yield number, Fault(f"line {number}: {problem}")
            continue
        try:
            yield number, text.decode("utf-8").lstrip(BYTE_ORDER_MARK)
        except UnicodeDecodeError as error:
            byte = f"byte {error.start + 1} of the line ({text[error.start]:#04x})"
            yield number, Fault(f"line {number}: {byte} is not UTF-8; expected UTF-8 text.")
