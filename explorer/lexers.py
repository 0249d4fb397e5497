"""Pygments lexers for the model language and the stages that this compiler prints, but for CUDA and PTX.

They are published as entry points, so that any document built with Pygments can show a stage. They are lenient:
a text in the middle of being typed still gets its colours. Three token types carry meaning beyond syntax:
`Keyword.Type` is the name of an index set, `Keyword.Pseudo` is what crosses a queue of the access-execute machine,
and `Name.Label` is a set of dependencies.
"""

# Pygments has no types, so its classes are Any to mypy, which `strict` forbids as a base class.
# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text, Whitespace

from explorer.compiler.ir.storage import ALIASES, STORAGES
from explorer.compiler.language.names.builtins import function_names
from explorer.compiler.language.names.prelude import prelude

__all__ = ["DlcLexer", "GraphLexer", "KernelsLexer", "LoopsLexer", "ModelLexer", "SassLexer", "SlcLexer"]

INDEX_SETS = (
    "batch", "negative", "entity", "relation", "node", "edge", "etype", "ntype", "src_pair", "dst_pair",
    "bag", "query", "entry", "nonzero",
)  # fmt: skip

FUNCTIONS = (*function_names(), *prelude(), "range")
"""What a text can call."""

_NUMBER = (r"\d+(\.(?!\.)\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?", Number)
_NAME = (r"[A-Za-z_]\w*", Name)
_SPACE = (r"\s+", Whitespace)
_COMMENT = (r"#.*$", Comment.Single)
_VARIABLE = (r"%\w+", Name.Variable)
_INDEX_SET = (words(INDEX_SETS, prefix=r"(?<![\w.])", suffix=r"\b"), Keyword.Type)
_STORED = (rf"(:)(\s*)({'|'.join((*STORAGES, *ALIASES))})\b", bygroups(Punctuation, Whitespace, Keyword))
"""What elements are stored in: `T[row, D]: bf16`."""
_LAST = (r".", Text)
_BUFFERS = "size param input index structure upstream temporary output"


def _words(names: str) -> tuple[words, object]:
    """The rule for keywords, which are given with spaces between them."""
    return words(names.split(), prefix=r"\b", suffix=r"\b"), Keyword


_STATEMENTS = (
    (r"[a-z_]\w*(?=\()", Name.Function),
    (r"\.\.", Operator),
    _NUMBER,
    _NAME,
    (r"[-+*/=]=?|[<>!]=?", Operator),
    (r"[\[\](){},.:;]", Punctuation),
    _LAST,
)
"""Statements of the imperative stages."""


class ModelLexer(RegexLexer):
    """The language that models are written in (`.emb`)."""

    name = "Embedding model"
    aliases: ClassVar[list[str]] = ["emb", "embedding-model"]
    filenames: ClassVar[list[str]] = ["*.emb"]
    mimetypes: ClassVar[list[str]] = ["text/x-embedding-model"]

    tokens: ClassVar = {
        "root": [
            _SPACE,
            _COMMENT,
            (r'"""(?s:.)*?"""', String.Doc),
            (r'"[^"\n]*"?', String.Doc),
            (r"(score|def|layer|op)(\s+)([A-Za-z_]\w*)", bygroups(Keyword, Whitespace, Name.Class)),
            (r"map(?=\s+[A-Za-z_]\w*\s*:)", Keyword),
            _words("dim param input return for in"),
            _STORED,
            _INDEX_SET,
            (words(FUNCTIONS, prefix=r"\b", suffix=r"(?=\s*\()"), Name.Builtin),
            _NUMBER,
            _NAME,
            (r"\.\.|\*\*|//|->|[<>=!]=|[-+*/%@=<>]", Operator),
            (r"[\[\](){},.:]", Punctuation),
            _LAST,
        ]
    }


class GraphLexer(RegexLexer):
    """The `graph` stage: one operator a line, with its index set, its shape and what it depends on."""

    name = "Embedding graph"
    aliases: ClassVar[list[str]] = ["emb-graph"]
    filenames: ClassVar[list[str]] = ["*.graph"]

    tokens: ClassVar = {
        "root": [
            _SPACE,
            _COMMENT,
            (r"^(score|layer|op)(\s+)([^\s:]+)", bygroups(Keyword, Whitespace, Name.Class)),
            _words("dim map param input structure upstream gradient return over"),
            (r"\{[^}\n]*\}", Name.Label),
            _VARIABLE,
            (r"(?<== )[a-z_]\w*(<[^>\n]*>)?", Name.Function),
            _INDEX_SET,
            _NUMBER,
            _NAME,
            (r"->|[-+*/=]", Operator),
            (r"[\[\](){},.:<>]", Punctuation),
            _LAST,
        ]
    }


class LoopsLexer(RegexLexer):
    """The `loops` stage: fused loop nests with explicit indices."""

    name = "Embedding loops"
    aliases: ClassVar[list[str]] = ["emb-loops"]
    filenames: ClassVar[list[str]] = ["*.loops"]

    tokens: ClassVar = {
        "root": [
            _SPACE,
            _COMMENT,
            (r"^(kernel|module)(\s+)(\S+)", bygroups(Keyword, Whitespace, Name.Class)),
            _words("size param input index structure upstream temporary output template parallel for in row acc"),
            *_STATEMENTS,
        ]
    }


class KernelsLexer(RegexLexer):
    """The `kernels` stage: loop nests scheduled for a GPU. Levels and barriers are what threads share."""

    name = "Embedding kernels"
    aliases: ClassVar[list[str]] = ["emb-kernels"]
    filenames: ClassVar[list[str]] = ["*.kernels"]

    tokens: ClassVar = {
        "root": [
            _SPACE,
            _COMMENT,
            (r"^(scheduled|module)(\s+)(\S+)", bygroups(Keyword, Whitespace, Name.Class)),
            (r"^(  )(chosen|schedule)( )(.*)$", bygroups(Whitespace, Keyword, Whitespace, Comment.Special)),
            (r"@(block|column|warp|lane|thread)\b", Name.Decorator),
            (r"\b(shared|register)\b", Name.Builtin),
            _words(
                f"{_BUFFERS} template threads count for in step unroll all rolled where acc reduce over lanes apart"
                " barrier atomic last padded swizzled multiply from by warps kept checked shuffled tf32 tf32x3 result"
                " gradient"
            ),
            *_STATEMENTS,
        ]
    }


class SlcLexer(RegexLexer):
    """The `slc` stage: streams and offloaded loops of the access unit, callbacks of the execute unit."""

    name = "Structured lookup-compute (SLC)"
    aliases: ClassVar[list[str]] = ["slc"]
    filenames: ClassVar[list[str]] = ["*.slc"]

    tokens: ClassVar = {
        "root": [
            _SPACE,
            _COMMENT,
            (r"^(slc)(\s+)(\w+)$", bygroups(Keyword, Whitespace, Name.Class)),
            (r"slcv?\.(to_val|push|store_str)\b", Keyword.Pseudo),
            (r"\b(splat|L2|LLC|HBM|non_temporal)\b", Name.Builtin),
            (r"slcv?\.(for|callback)\b", Keyword),
            (r"slcv?\.\w+", Name.Function),
            _words(f"{_BUFFERS} from to for in step lanes below row acc toggle"),
            _VARIABLE,
            *_STATEMENTS,
        ]
    }


class DlcLexer(RegexLexer):
    """The `dlc` stage: the access unit's dataflow code and the execute unit's loop, with the queues between."""

    name = "Decoupled lookup-compute (DLC)"
    aliases: ClassVar[list[str]] = ["dlc"]
    filenames: ClassVar[list[str]] = ["*.dlc"]

    tokens: ClassVar = {
        "root": [
            _SPACE,
            _COMMENT,
            (r"^(dlc)(\s+)(\w+)$", bygroups(Keyword, Whitespace, Name.Class)),
            (r"^(access|execute)$", Keyword),
            (r"\b(push_op|store_str|callback)\b", Keyword.Pseudo),
            (r"\b(ctrlQ|dataQ)\.pop\b", Keyword.Pseudo),
            (r"\b(loop_tr|mem_str|alu_str|acc_str)\b", Name.Function),
            (r"\b(splat|L2|LLC|HBM|non_temporal)\b", Name.Builtin),
            _words(f"{_BUFFERS} while if else for in step lanes below row acc done toggle"),
            (r"'[^'\n]*'", String),
            *_STATEMENTS,
        ]
    }


class SassLexer(RegexLexer):
    """The `sass` stage: machine code of an NVIDIA GPU, as nvdisasm writes it. Keywords are what moves the control."""

    name = "CUDA machine code (SASS)"
    aliases: ClassVar[list[str]] = ["cuda-sass"]  # `sass` alone names style sheets
    filenames: ClassVar[list[str]] = []

    tokens: ClassVar = {
        "root": [
            _SPACE,
            (r"//.*$", Comment.Single),
            (r"/\*.*?\*/|\(\*.*?\*\)", Comment.Multiline),
            (r"^\S+:$", Name.Label),
            (r"`\([^)\n]*\)", Name.Label),
            (r"@!?U?P\w+\b", Name.Decorator),
            (r"\b(BAR|BRA|BRX|BREAK|BSSY|BSYNC|CALL|EXIT|JMP|JMX|RET|WARPSYNC)\b(\.[A-Z]\w*)*", Keyword),
            (r"\b(UR|UP|SR_|R|P|B)(\d+|Z|T)\b|\bSR_[\w.]+", Name.Variable),
            (r"\.[A-Za-z]\w*", Name.Attribute),
            (r"\bc(?=\[)|\bdesc(?=\[)", Name.Builtin),
            (r"0x[0-9a-f]+", Number.Hex),
            _NUMBER,
            (r"[A-Z][A-Z0-9_]*\b", Name.Function),
            _NAME,
            (r"[-+*/!|~&<>=]", Operator),
            (r"[\[\](){},.:;`$]", Punctuation),
            _LAST,
        ]
    }
