"""The functions that a query may call, and the names in a query that may be calls (spec 4, G30).

PostgreSQL lets every role call hundreds of functions. Some of them write to its log, hold locks, or stop other
sessions; those listed here only compute. A query is not parsed, only split into tokens by the rules of PostgreSQL's
manual ("Lexical Structure"): everywhere in the grammar, a call is a name before a parenthesis, or a member after a
dot. The server decides which of these names are functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from capset_tools.database.child.failures import QueryFailure

_MATHEMATICAL: Final = """
    abs acos acosd acosh asin asind asinh atan atan2 atan2d atand atanh cbrt ceil ceiling cos cosd cosh cot cotd degrees
    div erf erfc exp factorial floor gamma gcd lcm lgamma ln log log10 min_scale mod pi pow power radians random
    random_normal round scale sign sin sind sinh sqrt tan tand tanh trim_scale trunc width_bucket
"""
_TEXT: Final = """
    ascii bit_count bit_length btrim casefold char_length character_length chr concat concat_ws convert convert_from
    convert_to crc32 crc32c decode encode format get_bit get_byte initcap is_normalized left length like like_escape
    lower lpad ltrim md5 normalize notlike octet_length overlay parse_ident position quote_ident quote_literal
    quote_nullable regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace
    regexp_split_to_array regexp_split_to_table regexp_substr repeat replace reverse right rpad rtrim set_bit set_byte
    sha224 sha256 sha384 sha512 similar_escape similar_to_escape split_part starts_with string_to_array string_to_table
    strpos substr substring to_ascii to_bin to_char to_date to_hex to_number to_oct to_timestamp translate unistr upper
"""
_TIME: Final = """
    age clock_timestamp date_add date_bin date_part date_subtract date_trunc extract isfinite justify_days
    justify_hours justify_interval make_date make_interval make_time make_timestamp make_timestamptz now overlaps
    statement_timestamp timeofday timezone transaction_timestamp
"""
_TYPES: Final = """
    bit bool box bpchar char cidr circle date daterange datemultirange float4 float8 inet int2 int4 int4multirange
    int4range int8 int8multirange int8range interval json jsonb lseg money multirange name numeric nummultirange
    numrange oid path point polygon text time timestamp timestamptz timetz tsmultirange tsrange tstzmultirange tstzrange
    varbit varchar
"""
_JSON: Final = """
    array_to_json json_agg json_agg_strict json_array_elements json_array_elements_text json_array_length
    json_build_array json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object
    json_object_agg json_object_agg_strict json_object_agg_unique json_object_agg_unique_strict json_object_keys
    json_populate_record json_populate_recordset json_strip_nulls json_to_record json_to_recordset json_typeof jsonb_agg
    jsonb_agg_strict jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array
    jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object
    jsonb_object_agg jsonb_object_agg_strict jsonb_object_agg_unique jsonb_object_agg_unique_strict jsonb_object_keys
    jsonb_path_exists jsonb_path_exists_tz jsonb_path_match jsonb_path_match_tz jsonb_path_query
    jsonb_path_query_array jsonb_path_query_array_tz jsonb_path_query_first jsonb_path_query_first_tz
    jsonb_path_query_tz jsonb_populate_record jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax
    jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof row_to_json to_json to_jsonb
"""
_ARRAYS_AND_RANGES: Final = """
    array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position array_positions
    array_prepend array_remove array_replace array_reverse array_sample array_shuffle array_sort array_to_string
    array_upper cardinality generate_series generate_subscripts isempty lower_inc lower_inf range_agg
    range_intersect_agg range_merge trim_array unnest upper_inc upper_inf
"""
_AGGREGATES: Final = """
    any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp cume_dist dense_rank
    every first_value lag last_value lead max min mode nth_value ntile percent_rank percentile_cont percentile_disc rank
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number stddev
    stddev_pop stddev_samp string_agg sum var_pop var_samp variance xmlagg
"""
_FULL_TEXT: Final = """
    array_to_tsvector json_to_tsvector jsonb_to_tsvector numnode phraseto_tsquery plainto_tsquery querytree setweight
    strip to_tsquery to_tsvector ts_delete ts_filter ts_headline ts_rank ts_rank_cd tsquery_phrase tsvector_to_array
    websearch_to_tsquery
"""
_OTHERS: Final = """
    abbrev area bernoulli bound_box broadcast center col_description current_database current_schema current_schemas
    diagonal diameter enum_first enum_last enum_range family format_type gen_random_uuid height host hostmask
    inet_merge inet_same_family isclosed isopen line masklen netmask network npoints num_nonnulls num_nulls
    obj_description pclose pg_column_size pg_get_constraintdef pg_get_expr pg_get_indexdef pg_get_viewdef
    pg_relation_size pg_size_pretty pg_table_is_visible pg_table_size pg_total_relation_size pg_typeof popen radius
    set_masklen slope system to_regclass to_regtype uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 version
    width xml_is_well_formed xml_is_well_formed_content xml_is_well_formed_document xmlcomment xmlexists xmltext xpath
    xpath_exists
"""
ORDINARY: Final = frozenset(
    " ".join(
        (
            *(_MATHEMATICAL, _TEXT, _TIME, _TYPES, _JSON),
            *(_ARRAYS_AND_RANGES, _AGGREGATES, _FULL_TEXT, _OTHERS),
        )
    ).split()
)
"""All others are refused: those that write, lock, sleep, change settings, read files, or run SQL from a text, and
those of later versions until they have been reviewed. ``system`` and ``bernoulli`` belong to ``TABLESAMPLE``. Types
are listed because a type with a length is a name before a parenthesis, too."""

_BY_TYPE: Final = "treat"
"""``TREAT(value AS name)`` calls the function ``name``."""
_LETTER: Final = r"A-Za-z_\x80-\U0010ffff"
_ESCAPED: Final = r"'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'(?!')"
_TOKEN: Final = re.compile(
    rf"""
    (?P<gap>[\ \t\n\r\f\v]+ | --[^\n\r]*)
    | (?P<comment>/\*)
    | (?P<refused>[uU]&")
    | (?P<escaped>[eE]{_ESCAPED})
    | (?P<text>'[^']*(?:''[^']*)*'(?!'))
    | (?P<quoted>"[^"]*(?:""[^"]*)*"(?!"))
    | (?P<dollar>\$(?:[{_LETTER}][{_LETTER}0-9]*)?\$)
    | (?P<parameter>\$[0-9]+(?![{_LETTER}0-9$.]))
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)? | \.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![{_LETTER}0-9$]))
    | (?P<word>[{_LETTER}][{_LETTER}0-9$]*)
    | (?P<sign>[^'"$0-9])
    """,
    re.VERBOSE | re.DOTALL,
)
"""One token. A sign is a single character, even within an operator. Text that does not match is refused."""
_GO_ON: Final = re.compile(_ESCAPED, re.DOTALL)
"""The continuation of a string with escapes on a later line."""
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")


@dataclass
class NamesInQuery:
    """Names that may be function calls: ``called`` stand before a parenthesis, ``members`` after a dot."""

    called: set[str] = field(default_factory=set[str])
    members: set[str] = field(default_factory=set[str])


def names_in(query: str) -> NamesInQuery:
    """Return the names in a query that may be function calls, with their case folded as in PostgreSQL.

    Raises ``QueryFailure`` for a query that PostgreSQL might split into other tokens.
    """
    names = NamesInQuery()
    name: set[str] = set()
    is_member = False
    before = ""
    for kind, text in _tokens(query):
        if name and text == "(":
            names.called |= name
        elif name and is_member:
            names.members |= name
        is_member = before == "."
        name = _folded(text) if kind == "word" else {text[1:-1].replace('""', '"')} if kind == "quoted" else set()
        before = text
    if name and is_member:
        names.members |= name
    if _BY_TYPE in names.called:
        raise _unreadable("TREAT", "write CAST(… AS …)")
    return names


def _tokens(query: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each token, without white space and comments."""
    place, before = 0, ""
    while place < len(query):
        token = _TOKEN.match(query, place)
        if token is not None and token.lastgroup == "text" and before == "escaped":
            token = _GO_ON.match(query, place)
            kind = "escaped"
        else:
            kind = "" if token is None else token.lastgroup or ""
        if token is None or kind == "refused":
            raise _unreadable(
                repr(query[place : place + 20]),
                "close each quote, write names without U&, and put a blank behind a number",
            )
        place = token.end()
        if kind == "gap":
            continue
        if kind == "comment":
            place = _end_of_comment(query, place)
            continue
        if kind == "dollar":
            rest = query.find(token[0], place)
            if rest < 0:
                raise _unreadable(repr(token[0]), "close the text that it begins")
            place = rest + len(token[0])
        yield kind, token[0]
        before = kind


def _end_of_comment(query: str, place: int) -> int:
    """Return the position after a comment, which may contain other comments."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(query, place):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    raise _unreadable("/*", "close the comment")


def _folded(word: str) -> set[str]:
    """Return the names that an unquoted word may mean: databases fold non-ASCII letters differently."""
    return {word.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass"), word.lower()}


def _unreadable(place: str, todo: str) -> QueryFailure:
    return QueryFailure(f"the query cannot be read for certain at {place}: {todo}")
