"""The shape of a biLM: every architecture field of bilm-tf's ``options.json``, and what other
published models have beside it, validated."""

from dataclasses import asdict, dataclass, fields
from sys import float_info
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

ACTIVATIONS = ("relu", "tanh")
CHAR_ENCODERS = ("cnn", "lstm", None)
ENCODERS = ("elmo", "lstm")

# Ids 0-255 are UTF-8 bytes; five more mark the borders of words and sentences and the
# padding inside a word. bilm-tf counts 261 while training and 262 (one mask id in front)
# while predicting; both describe the same table of 261 rows.
N_BYTE_CHARACTERS = 261
N_CHARACTERS = (N_BYTE_CHARACTERS, N_BYTE_CHARACTERS + 1)


class SettingError(ValueError):
    """A biLM setting has a wrong type or an impossible value.

    :param name: the setting.
    :param value: what it is.
    :param expected: what it should be, in words.
    """

    def __init__(self, name: str, value: Any, expected: str) -> None:
        super().__init__(name, value, expected)
        self.name = name
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        return f"biLM setting {self.name!r} is {self.value!r}; expected {self.expected}."


@dataclass(frozen=True)
class WordTable:
    """A table of word vectors at the input, in front of what the characters give, or alone.

    :param dim: size of a word's vector.
    :param n_words: entries of its dictionary. ``None``: as many as a biLM is given.
    :param frozen: training leaves the vectors as they are.
    :raises ValueError: a field has a wrong type or an impossible value; the message names it.
    """

    dim: int
    n_words: Optional[int] = None
    frozen: bool = False

    def __post_init__(self) -> None:
        _require("words.dim", self.dim, _is_int, "a whole number, 1 or more", minimum=1)
        if self.n_words is not None:
            expected = "a whole number, 1 or more, or none"
            _require("words.n_words", self.n_words, _is_int, expected, minimum=1)
        _require("words.frozen", self.frozen, _is_bool, "true or false")


@dataclass(frozen=True)
class BiLMConfig:
    """The sizes and switches of a biLM. Field names are the field's usual terms; the
    ``options.json`` name is given where it differs.

    :param filters: ``(width, count)`` of each character convolution, widths in characters; none
        where ``char_encoder`` is not ``cnn``.
    :param projection_dim: size of a token vector and of each direction's output
        (``lstm.projection_dim``).
    :param cell_size: size of an LSTM cell (``lstm.dim``).
    :param n_layers: LSTM layers a direction. The biLM gives ``n_layers + 1`` layers.
    :param char_embedding_dim: size of a character vector (``char_cnn.embedding.dim``).
    :param max_characters_per_token: bytes (or code points) kept of a token, its begin and end
        marks included.
    :param n_characters: 261 or 262, two ways to count the same 261 characters.
    :param activation: ``relu`` or ``tanh``, after the max-pool.
    :param n_highway: highway layers on the pooled filters, 0 for none, as where there are none.
    :param cell_clip: bound on the absolute cell value, ``None`` for no clipping.
    :param proj_clip: bound on the absolute projected output, ``None`` for no clipping.
    :param use_skip_connections: from the second LSTM layer on, add a layer's input to its output.
    :param token_projection: a linear layer from the filters (and the word's vector) to
        ``projection_dim``. ``None``: only where their sizes differ, as bilm-tf does.
    :param cell_projection: a linear layer from the cell to ``projection_dim``. ``None``: only
        where their sizes differ, as bilm-tf does.
    :param forget_bias: added to the forget gate at run time. TensorFlow's cells add 1.0, and
        their files do not contain it.
    :param dropout: rate on the input of each LSTM layer and on the last output, applied in
        training mode only (as in bilm-tf).
    :param char_encoder: what makes one vector of a word's characters: ``cnn``, the convolutions;
        ``lstm``, the last states of an LSTM in both directions; ``None``, nothing: words come
        from the table alone.
    :param code_points: entries of a dictionary of code points, which are the characters in place
        of UTF-8 bytes; ``None`` for bytes.
    :param words: a table of word vectors, joined in front of what the characters give.
    :param encoder: ``elmo``, or ``lstm``: the plain LSTM of ELMoForManyLangs, without clips and
        skip connections, whose layers read both directions of the layer below, and of which only
        the last layer is given, after a projection that both directions share.
    :raises ValueError: a field has a wrong type or an impossible value; the message names it.
    """

    filters: Tuple[Tuple[int, int], ...]
    projection_dim: int
    cell_size: int
    n_layers: int = 2
    char_embedding_dim: int = 16
    max_characters_per_token: int = 50
    n_characters: int = N_BYTE_CHARACTERS + 1
    activation: str = "relu"
    n_highway: int = 1
    cell_clip: Optional[float] = 3.0
    proj_clip: Optional[float] = 3.0
    use_skip_connections: bool = True
    token_projection: Optional[bool] = None
    cell_projection: Optional[bool] = None
    forget_bias: float = 1.0
    dropout: float = 0.1
    char_encoder: Optional[str] = "cnn"
    code_points: Optional[int] = None
    words: Optional[WordTable] = None
    encoder: str = "elmo"

    def __post_init__(self) -> None:
        self._check_parts()
        if self.char_encoder == "cnn":
            object.__setattr__(self, "filters", _validate_filters(self.filters))
        elif self.filters:
            _fail("filters", self.filters, "none, as char_encoder is not 'cnn'")
        else:
            object.__setattr__(self, "filters", ())
            object.__setattr__(self, "n_highway", 0)
        for name in (
            "projection_dim",
            "cell_size",
            "n_layers",
            "char_embedding_dim",
            "max_characters_per_token",
        ):
            _require(name, getattr(self, name), _is_int, "a whole number, 1 or more", minimum=1)
        _require("n_highway", self.n_highway, _is_int, "a whole number, 0 or more", minimum=0)
        if not _is_int(self.n_characters) or self.n_characters not in N_CHARACTERS:
            _fail("n_characters", self.n_characters, "261 or 262")
        if self.max_characters_per_token < 3:
            _fail(
                "max_characters_per_token",
                self.max_characters_per_token,
                "3 or more (two of them are the marks of a word's borders)",
            )
        if self.widest_filter > self.max_characters_per_token:
            _fail(
                "filters",
                f"a width of {self.widest_filter}",
                f"widths up to max_characters_per_token ({self.max_characters_per_token})",
            )
        if self.activation not in ACTIVATIONS:
            _fail("activation", self.activation, "'relu' or 'tanh'")
        for name in ("cell_clip", "proj_clip"):
            value = getattr(self, name)
            # bilm-tf writes "no clipping" as 0 or leaves the field out.
            if value is None or (_is_number(value) and value == 0):
                object.__setattr__(self, name, None)
            else:
                _require(name, value, _is_number, "a number above 0, or none", minimum=0)
                object.__setattr__(self, name, float(value))
        _require("use_skip_connections", self.use_skip_connections, _is_bool, "true or false")
        if self.token_projection is None:
            object.__setattr__(self, "token_projection", self.token_dim != self.projection_dim)
        if self.cell_projection is None:
            has_projection = self.encoder == "lstm" or self.cell_size != self.projection_dim
            object.__setattr__(self, "cell_projection", has_projection)
        for name, size in (
            ("token_projection", self.token_dim),
            ("cell_projection", self.cell_size),
        ):
            value = getattr(self, name)
            _require(name, value, _is_bool, "true, false or none")
            if not value and size != self.projection_dim:
                _fail(name, value, f"true: {size} values have to become {self.projection_dim}")
        _require("forget_bias", self.forget_bias, _is_number, "a number")
        _require("dropout", self.dropout, _is_number, "a number from 0 up to 1", minimum=0)
        if self.dropout >= 1:
            _fail("dropout", self.dropout, "a number from 0 up to 1, 1 excluded")

    def _check_parts(self) -> None:
        """Which parts there are, before their sizes are looked at."""
        if self.char_encoder not in CHAR_ENCODERS:
            _fail("char_encoder", self.char_encoder, "'cnn', 'lstm', or none for no characters")
        if isinstance(self.words, Mapping):
            object.__setattr__(self, "words", _read_word_table(self.words))
        if self.words is not None and not isinstance(self.words, WordTable):
            _fail("words", self.words, "a block with dim, or none for no word table")
        if self.char_encoder is None and self.words is None:
            _fail("words", None, "a word table, as char_encoder is none: tokens need one of them")
        if self.code_points is not None:
            expected = "a number of code points, 7 or more, or none for UTF-8 bytes"
            _require("code_points", self.code_points, _is_int, expected, minimum=7)
            if self.char_encoder is None:
                _fail("code_points", self.code_points, "none, as char_encoder is none")
        if self.encoder not in ENCODERS:
            _fail("encoder", self.encoder, "'elmo' or 'lstm'")
        if self.encoder == "lstm":
            for name, value in (
                ("cell_clip", None),
                ("proj_clip", None),
                ("use_skip_connections", False),
            ):
                object.__setattr__(self, name, value)

    @property
    def n_filters(self) -> int:
        """Filters of all widths together: the size of a pooled token."""
        return sum(count for _, count in self.filters)

    @property
    def widest_filter(self) -> int:
        """Width of the widest convolution, 0 where there is none."""
        return max((width for width, _ in self.filters), default=0)

    @property
    def token_dim(self) -> int:
        """Size of a token before the projection: its word's vector, then its characters'."""
        characters = 2 * self.char_embedding_dim if self.char_encoder == "lstm" else self.n_filters
        return characters + (self.words.dim if self.words is not None else 0)

    @property
    def n_char_embeddings(self) -> int:
        """Rows of the table of character vectors."""
        return N_BYTE_CHARACTERS if self.code_points is None else self.code_points

    @property
    def hidden_size(self) -> int:
        """Size of what an LSTM layer gives to its own next step."""
        return self.projection_dim if self.encoder == "elmo" else self.cell_size

    @property
    def layer_inputs(self) -> Tuple[int, ...]:
        """Size of the input of each LSTM layer."""
        above = self.projection_dim if self.encoder == "elmo" else 2 * self.cell_size
        return (self.projection_dim, *(above,) * (self.n_layers - 1))

    @property
    def mixture_size(self) -> int:
        """Layers that the biLM gives, the token layer included."""
        return 1 + (self.n_layers if self.encoder == "elmo" else 1)

    @property
    def width(self) -> int:
        """Size of a layer's row: both directions side by side."""
        return 2 * self.projection_dim

    def to_dict(self) -> Dict[str, Any]:
        """The fields as JSON-serializable values. Those of the optional parts are left out where
        a biLM has none, so that one without them is described as it ever was."""
        values = asdict(self)
        values["filters"] = [list(pair) for pair in self.filters]
        for field in fields(self):
            if field.name in OPTIONAL and values[field.name] == field.default:
                del values[field.name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "BiLMConfig":
        """The reverse of :meth:`to_dict`.

        :raises ValueError: a field is unknown, missing or wrong.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(
                f"Unknown biLM setting {', '.join(map(repr, unknown))}; "
                f"the settings are {', '.join(known)}."
            )
        has_filters = values.get("char_encoder", "cnn") == "cnn"
        required = (*(("filters",) if has_filters else ()), "projection_dim", "cell_size")
        missing = [name for name in required if name not in values]
        if missing:
            raise ValueError(f"Missing biLM setting {', '.join(map(repr, missing))}.")
        return cls(**{"filters": (), **values})


#: Fields of parts that a biLM of bilm-tf does not have.
OPTIONAL = ("char_encoder", "code_points", "words", "encoder")


def _read_word_table(values: Mapping[str, Any]) -> WordTable:
    known = [field.name for field in fields(WordTable)]
    unknown = sorted(set(values) - set(known))
    if unknown:
        _fail("words", dict(values), f"no setting but {', '.join(known)}")
    if "dim" not in values:
        _fail("words", dict(values), "a value of dim, the size of a word's vector")
    return WordTable(**values)


def _validate_filters(filters: Any) -> Tuple[Tuple[int, int], ...]:
    expected = "a list of [width, count] pairs of whole numbers, 1 or more"
    if not isinstance(filters, Sequence) or isinstance(filters, str) or not filters:
        _fail("filters", filters, expected)
    for pair in filters:
        is_pair = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not is_pair or not all(_is_int(n) and n >= 1 for n in pair):
            _fail("filters", filters, expected)
    return tuple((pair[0], pair[1]) for pair in filters)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # False for NaN and infinity, and for a whole number that no float can hold.
    return is_number and abs(value) <= float_info.max


def _require(
    name: str, value: Any, is_type: Any, expected: str, minimum: Optional[float] = None
) -> None:
    if not is_type(value) or (minimum is not None and value < minimum):
        _fail(name, value, expected)


def _fail(name: str, value: Any, expected: str) -> None:
    raise SettingError(name, value, expected)
