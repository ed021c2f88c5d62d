"""Files of coded events as ICEWS and GDELT lay them out, column by column."""

from __future__ import annotations

ICEWS_COLUMNS = (
    "Event ID",
    "Event Date",
    "Source Name",
    "Source Sectors",
    "Source Country",
    "Event Text",
    "CAMEO Code",
    "Intensity",
    "Target Name",
    "Target Sectors",
    "Target Country",
    "Story ID",
    "Sentence Number",
    "Publisher",
    "City",
    "District",
    "Province",
    "Country",
    "Latitude",
    "Longitude",
)
_ACTOR = (
    "Code",
    "Name",
    "CountryCode",
    "KnownGroupCode",
    "EthnicCode",
    "Religion1Code",
    "Religion2Code",
)
_TYPES = ("Type1Code", "Type2Code", "Type3Code")
_PLACE = ("Type", "FullName", "CountryCode", "ADM1Code", "ADM2Code", "Lat", "Long", "FeatureID")
_EVENT = (
    "IsRootEvent",
    "EventCode",
    "EventBaseCode",
    "EventRootCode",
    "QuadClass",
    "GoldsteinScale",
)
_COVERAGE = ("NumMentions", "NumSources", "NumArticles", "AvgTone")
GDELT_WIDTHS = (57, 58, 61)


def gdelt_columns(width: int) -> list[str]:
    """The columns of a GDELT event export; the second version has one more for each place."""
    place = [part for part in _PLACE if width == 61 or part != "ADM2Code"]
    columns = ["GLOBALEVENTID", "SQLDATE", "MonthYear", "Year", "FractionDate"]
    columns += [f"{actor}{part}" for actor in ("Actor1", "Actor2") for part in _ACTOR + _TYPES]
    columns += [*_EVENT, *_COVERAGE]
    columns += [f"{whose}Geo_{part}" for whose in ("Actor1", "Actor2", "Action") for part in place]
    columns += ["DATEADDED", "SOURCEURL"][: 1 if width == 57 else 2]
    assert len(columns) == width
    return columns


def gdelt_row(
    subject: str, code: str, object_: str, date: str, width: int = 61, **others: str
) -> str:
    """A line of a GDELT event export, without its line end.

    The code of an actor is its name in three letters.
    """
    values = {
        "GLOBALEVENTID": "410479387",
        "SQLDATE": date,
        "MonthYear": date[:6],
        "Year": date[:4],
        "FractionDate": "2015.1315",
        "Actor1Code": subject.strip()[:3].upper(),
        "Actor1Name": subject,
        "Actor2Code": object_.strip()[:3].upper(),
        "Actor2Name": object_,
        "IsRootEvent": "1",
        "EventCode": code,
        "EventBaseCode": code[:3],
        "EventRootCode": code[:2],
        "QuadClass": "1",
        "GoldsteinScale": "2.8",
        "ActionGeo_FullName": "Moscow, Moskva, Russia",
        "DATEADDED": "20150218230000",
        "SOURCEURL": "http://example.org/a-story",
    } | others
    return "\t".join(values.get(column, "") for column in gdelt_columns(width))


def icews_row(
    subject: str, text: str, object_: str, date: str, code: str = "010", **others: str
) -> str:
    """A line of an ICEWS file of coded events, without its line end."""
    values = {
        "Event ID": "20718170",
        "Event Date": date,
        "Source Name": subject,
        "Source Sectors": "Executive,Government",
        "Event Text": text,
        "CAMEO Code": code,
        "Intensity": "3.4",
        "Target Name": object_,
        "Story ID": "34000000",
        "Sentence Number": "2",
        "Publisher": "A Daily",
    } | others
    return "\t".join(values.get(column, "") for column in ICEWS_COLUMNS)


ICEWS_HEADER = "\t".join(ICEWS_COLUMNS)
