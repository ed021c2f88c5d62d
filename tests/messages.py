"""The messages of the package, word for word.

Tests look a message up by name, so rewording one means an edit in src and an edit here.
A name is the module that makes the message and what the message is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

MESSAGES = {
    # The root of the package
    "device.ranking_memory": (
        "ranking ran out of memory; take a smaller model or, with evaluate, "
        "a smaller budget for scores (--memory MIB)"
    ),
    "device.training_memory": (
        "training ran out of memory; take smaller steps, with {sizes}, or a smaller model"
    ),
    "device.unknown": (
        "there is no device '{device}' here; use auto, cpu, or cuda on a machine with a GPU"
    ),
    "io.above_is_a_file": ("{above} is a file, so {path} cannot be written; choose another path"),
    "io.exists": "{path} exists already; choose another path or pass --overwrite",
    "io.in_use": "{path} is in use by another command; wait for it or choose another --out",
    "io.not_written": "cannot write {path}: {reason}; nothing was changed",
    "io.not_ours": "{path} has no {marker}, so it is not overwritten; choose another path",
    "typing.bounds": "{setting} must be {bounds}, found {value}",
    # The data package
    "any_source.dataset": "{path}: is a dataset already; use it as it is, such as in train",
    "any_source.empty_splits": (
        "{source}: no fact is in {splits}; a model is validated on valid facts and tested on test "
        "facts, so add some"
    ),
    "any_source.folder": (
        "{path}: is a folder; name the files in it, or call them train, valid and test, such as "
        "train.csv and test.csv"
    ),
    "any_source.key": "{problem}; map train, valid and test to files or tables",
    "any_source.no_train": "there are no train facts among {keys}; add them",
    "any_source.split_again": (
        "{path}: is of the split {split} already; name the files of each split"
    ),
    "any_source.split_hint": (
        "columns not used: {columns}; '{column}' holds splits, and {option} uses them"
    ),
    "any_source.too_few": (
        "{source}: too few facts, {facts}, to hold some out for validation and test; add more, or "
        "hold out more with {options}"
    ),
    "arrow_tables.four_parts": (
        "row {row} must be a subject, a relation, an object and a time, found {value!r}"
    ),
    "arrow_tables.several_kinds": (
        "the column '{column}' holds values of several kinds ({reason}); write all of them one way"
    ),
    "arrow_tables.unreadable": (
        "the table cannot be read: {reason}; pass columns with distinct names, each with one kind "
        "of value"
    ),
    "benchmarks.not_published": (
        "{address}: not the published file (git blob id {found}, expected {expected}); {way_out}"
    ),
    "catalog.misspelt": (
        "there is no dataset '{dataset}' in the current folder or in {roots}; did you mean {names}?"
    ),
    "catalog.no_dataset": (
        "there is no dataset '{dataset}' in the current folder or in {roots}; "
        "run 'tempograph data list' to see which there are"
    ),
    "catalog.not_a_dataset": "{path}: not a dataset folder; it holds no entities.txt",
    "catalog.not_here": (
        "{dataset} is not on this machine; run 'tempograph data get {dataset}', "
        "or point TEMPOGRAPH_DATA at the folder that holds it"
    ),
    "downloads.not_fetched": (
        "{address}: cannot be fetched ({reason}); try again later, "
        "or set TEMPOGRAPH_MIRROR to another base address of the same files"
    ),
    "downloads.not_web": "{address}: not a web address ({reason}); check TEMPOGRAPH_MIRROR",
    "downloads.status": (
        "{address}: the server answered with HTTP status {status}; try again later, "
        "or set TEMPOGRAPH_MIRROR to another base address of the same files"
    ),
    "downloads.truncated": (
        "{address}: the connection ended after {done} of {total} bytes; try again later, "
        "or set TEMPOGRAPH_MIRROR to another base address of the same files"
    ),
    "bound_lookup.before": (
        "the {part} '{text}' is before the first step of {graph}, {first}, and earlier steps "
        "cannot be added"
    ),
    "bound_lookup.off_grid": (
        "the {part} '{text}' is not on the time grid of {graph} ({steps} steps, {first} to {last})"
    ),
    "bound_lookup.still_holds": "{problem}; if the fact still holds, its end is '..'",
    "fact_ids.fact": "fact {row}: {problem}",
    "fact_ids.four_parts": (
        "fact {row} must be a subject, a relation, an object and a time, found {value!r}"
    ),
    "attributes.again": (
        "{path}, row {row}: '{name}' is in row {first} already; leave one of the two out"
    ),
    "attributes.columns": (
        "{path}: a table of attributes has a column 'entity' and at least one more, found {found}"
    ),
    "attributes.no_file": "{path}: no such file",
    "attributes.none_known": (
        "{path}: none of its {count} names is that of an entity, such as '{entity}'"
    ),
    "attributes.number": (
        "{graph}: attribute '{attribute}' must have a value for each of the {entities} entities, "
        "found {found}"
    ),
    "folder.empty_names": "{path}: the file is empty; it must hold at least one name",
    "folder.incomplete_gzip": (
        "{path}: not a complete gzip file "
        "(Compressed file ended before the end-of-stream marker was reached)"
    ),
    "folder.line_break": "{path}: the name {name!r} contains a line break",
    "folder.long_id": "{path}:{line}: id {value} is out of range",
    "folder.no_file": "{path}: no such file",
    "folder.no_folder": "{path}: no such dataset folder",
    "folder.no_split": "{path}: no such file, nor {split}.tsv.gz or {split}.parquet",
    "folder.no_train_facts": "{path}: the train split has no facts to learn from",
    "folder.not_an_id": "{path}:{line}: '{value}' is not an integer id",
    "folder.not_utf8": "{path}:{line}: byte {byte} is not UTF-8; save the file as UTF-8",
    "folder.out_of_range": (
        "{path}:{line}: {column} id {value} is out of range; the dataset has ids 0 to {last}"
    ),
    "folder.repeated_name": "{path}:{line}: the name '{name}' is on line {first} already",
    "folder.two_files": "{path}: exists beside {other}; remove one of the two",
    "folder.unreadable": "{path}: cannot be read: {reason}",
    "folder.wrong_field_count": "{path}:{line}: expected 4 tab-separated fields, found {found}",
    "row_chunks.not_written": "cannot write beside {path}: {reason}; nothing was changed",
    "parquet_facts.columns": "{path}: expected the columns {columns}, found {found}",
    "parquet_facts.empty": "{path}: row {row}: the {column} is empty; give an id",
    "parquet_facts.long_id": "{path}: row {row}: id {value} is out of range",
    "parquet_facts.not_integers": "{path}: column '{column}' must hold integer ids, not {kind}",
    "parquet_facts.out_of_range": (
        "{path}: row {row}: {column} id {value} is out of range; the dataset has ids 0 to {last}"
    ),
    "parquet_facts.wrong_order": "{path}: row {row}: the start {start} is after the end {end}",
    "frequency.too_many": "{entities} entities and {relations} relations are too many to count",
    "graph.date_for_label": (
        "the time {date} is a date, but the steps have labels such as '{label}'; give a label"
    ),
    "graph.no_id": "there is no entity {value}; ids run from 0 to {last}",
    "graph.not_on_grid": (
        "'{time}' is not on the time grid of {graph} ({count} steps, {first} to {last})"
    ),
    "graph.out_of_range": "{graph}: {split} fact {row} has {column} {value}, outside 0 to {last}",
    "graph.wrong_width": (
        "{graph}: facts must have 4 columns, or 6 if they hold for a while; found {width}"
    ),
    "graph.wrong_shape": "{graph}: {split} facts must be int64 [n, 4], found {found}",
    "suggestions.choose": "there is no {kind} '{value}'; choose from {names}",
    "id_lookup.not_a_name": "the {column} must be a name or an id, found {value}",
    "protocol.task": ("protocol {protocol} is for task {own}, not {task}; leave one of them out"),
    "row_errors.count": "{failed} of {rows} rows cannot be {done}: {kinds}",
    "result_table.not_installed": (
        "to_{package} needs {package}, which is not installed; run 'pip install {package}', "
        "or use to_arrow"
    ),
    "suggestions.did_you_mean": "there is no {kind} '{value}'; did you mean {names}?",
    "suggestions.unknown": "there is no {kind} '{value}'",
    "tgb_datasets.archive": (
        "{address}: not the archive we know (SHA-256 {found}, expected {expected}); if it is a "
        "newer one, download it yourself and pass it with --from"
    ),
    "tgb_datasets.counts": (
        "{path}: not {name} as published, which has {count} {what}, found {found}; import other "
        "tables with 'tempograph data import'"
    ),
    "new_names.line_break": ("the {kind} {value!r} contains a line break; a name must be one line"),
    # The importers of the data package
    "bad_rows.one": "{reason}: 1 row, at {path}:{line}",
    "bad_rows.several": "{reason}: {rows} rows, the first at {path}:{line}",
    "bad_rows.value": "{reason}: 1 row, {value!r} at {path}:{line}",
    "bad_rows.values": "{reason}: {rows} rows, such as {values}",
    "batch_options.other": "{source} does not have the columns of the import, {columns}",
    "column_guessing.end": (
        "warning: column '{column}' is not used: facts are taken at their start, column '{start}'; "
        "--start '{start}' --end '{column}' reads facts that hold until their end"
    ),
    "column_guessing.time_or_bounds": (
        "{path}: facts have a time, {time}, or a start and an end, {start} and {end}; say which "
        "with --time, or with --start and --end"
    ),
    "column_guessing.no_header": (
        "{path}: the first row, {columns}, looks like a fact and not like a header; pass "
        "--no-header, or name the columns in the first row"
    ),
    "column_guessing.no_column": (
        "{path}: no column name suggests the {part}; the columns are {columns}: "
        "name it with --{part}"
    ),
    "column_guessing.no_table_column": (
        "the table: no column name suggests the {part}; the columns are {columns}: "
        "name it with ImportOptions({part}=...)"
    ),
    "column_guessing.no_files": "there is no file to import; name at least one",
    "column_guessing.two_columns": (
        "{columns} fit the {part} equally well; say which it is with --{part}"
    ),
    "column_guessing.unused": "columns not used: {columns}",
    "csv_reader.csv_error": "{path}:{line}: {reason}; is a quotation mark left open?",
    "csv_reader.empty": "{path}: the file is empty, so there is nothing to import",
    "csv_reader.misspelt_column": (
        "{path}: there is no column '{column}' among {columns}; did you mean {names}?"
    ),
    "csv_reader.no_column": "{path}: there is no column '{column}' among {columns}",
    "csv_reader.no_rows": "{path}: the file has no rows, so there is nothing to import",
    "csv_reader.header_not_utf8": (
        "{path}:{line}: byte {byte} is not {encoding}; pass the encoding of the file"
    ),
    "csv_reader.not_utf8": (
        "{path}:{line}: byte {byte} is not {encoding}; pass the encoding of the file; --skip-bad "
        "skips such rows"
    ),
    "csv_reader.open_quote": "{path}:{line}: a quotation mark opened in this row is never closed",
    "csv_reader.repeated_column": (
        "{path}: {count} columns are named '{column}'; rename all but one"
    ),
    "csv_reader.suffix": (
        "{path}: the suffix '{suffix}' is unknown; import .csv, .tsv, .txt or .jsonl, plain or "
        "gzipped, or .parquet, or pass the delimiter of a text file"
    ),
    "csv_reader.wrong_field_count": (
        "{path}:{line}: expected {expected} fields, found {found}; --skip-bad skips such rows"
    ),
    "event_formats.empty": "{path}: the file is empty, so there is nothing to import",
    "event_formats.not_icews": (
        "{path}: the header has no column '{column}', so it is not an ICEWS file of coded events"
    ),
    "event_formats.not_text": "{path}: is not {title}: it is not a text file",
    "event_formats.relation_level": (
        "{path}: the header has no column '{column}'; use relation level '{level}'"
    ),
    "event_formats.wrong_width": (
        "{path}: is not a GDELT event export: "
        "expected 57, 58 or 61 tab-separated columns, found {found}"
    ),
    "fact_splits.empty": "warning: there are no {split} facts, which {use}",
    "fact_splits.overlap": (
        "warning: {facts} in several splits and kept only in the last of them, so that no held-out "
        "fact is learned: {counts}; the first is {fact}"
    ),
    "importer.no_train": "{paths}: no fact is in train only, so there is nothing to learn from",
    "importer.no_events": "{paths}: none of {rows} rows is an event; {reasons}",
    "importer.no_files": "there is no file to import; name at least one",
    "importer.no_rows": "{paths}: none of 0 rows is an event",
    "importer.sparse": (
        "only {used} of the {count} steps from {first} to {last} have a fact; "
        "is one of these two a typo?"
    ),
    "importer.too_many_bad": (
        "{paths}: {bad} of {rows} rows are bad ({share}): {reasons}; "
        "correct them, or allow more with --max-bad"
    ),
    "importer.too_many_bad_in_table": (
        "the table: {bad} of {rows} rows are bad ({share}): {reasons}; "
        "correct them, or allow more with ImportOptions(max_bad=...)"
    ),
    "json_reader.empty": "{path}: the file is empty, so there is nothing to import",
    "json_reader.no_objects": (
        "{path}: none of the first lines is a JSON object; write one in each line"
    ),
    "json_reader.not_an_object": (
        "{path}:{line}: expected a JSON object of texts and numbers in UTF-8, found {value!r}; "
        "--skip-bad skips such rows"
    ),
    "name_ids.changed": (
        "{names} trimmed or normalized, {joined} joined with another: {changes}; "
        "--keep-names keeps names as written"
    ),
    "name_ids.changed_in_table": (
        "{names} trimmed or normalized, {joined} joined with another: {changes}; "
        "ImportOptions(keep_names=True) keeps names as written"
    ),
    "options.already_split": "the facts are split already, by {given}; leave out {setting}",
    "options.own_column": (
        "split_column must be a column of its own, found '{column}' among {columns}"
    ),
    "options.choice": "{setting} must be one of {choices}; found '{value}'",
    "options.delimiter": ("the delimiter must be one ASCII character such as ',', found '{value}'"),
    "options.fixed_columns": (
        "the format {format} has fixed columns and dates; leave out {setting}"
    ),
    "options.for_events": (
        "{setting} is for the formats icews, gdelt; for a table, name the columns"
    ),
    "options.four_columns": (
        "subject, relation, object and time must be four columns, found {columns}"
    ),
    "options.hour": (
        "granularity 'hour' is too fine: "
        "events of the format {format} have a date but no time of day"
    ),
    "options.max_bad": "max_bad must be at least 0 and come with skip_bad, found {value}",
    "options.number": "without a header, columns are given by number from 0, found '{value}'",
    "options.seed": "seed must be at least 0, found {value}",
    "options.shares": (
        "valid_share and test_share must be at least 0 and together below 1, "
        "found {valid} and {test}"
    ),
    "own_splits.empty": "the split is empty; write train, valid or test, or remove the row",
    "own_splits.two_files": "{path}: {other} holds the {split} facts too; remove one of the two",
    "own_splits.unknown": "the split {value!r} is not train, valid or test; correct it",
    "sources.empty_archive": "{path}: the archive holds no files, so there is nothing to import",
    "sources.encrypted": "{path}: is encrypted; unpack the archive first",
    "sources.folder": "{path}: is a folder; name the files in it",
    "sources.incomplete": "{path}: cannot be read: {reason}; is the file complete?",
    "sources.no_file": "{path}: no such file",
    "sources.no_match": "{path}: no file matches",
    "sources.unreadable": "{path}: cannot be read: {reason}",
    "tgb_reader.columns": (
        "{path}: expected the columns ts or date, head, tail, relation_type, found {found}"
    ),
    "tgb_reader.no_edges": (
        "{path}: there is no {name}_edgelist.csv in it; name the folder, the archive {name}.zip or "
        "the edge list"
    ),
    "tgb_reader.no_name": (
        "{path}: {number} has no name; add it, or remove the file to keep numbers"
    ),
    "tgb_reader.no_rows": "{path}: the file has no rows, so there are no facts",
    "tgb_reader.no_source": "{path}: no such file or folder",
    "tgb_reader.not_steps": "{path}: the times run from {first} to {last}, which are not {step}s",
    "tgb_reader.one_column": "{path}: expected a name and a number in each row, found one column",
    "tgb_reader.one_day": "{path}: several times are of one day, but each day must have one time",
    "tgb_reader.one_name": "{path}: two numbers have one name; remove the file to keep numbers",
    "table_header.empty": "{path}: the file is empty, so there is nothing to import",
    "table_header.one_field": (
        "{path}: the first line has one field, {line!r}; pass its delimiter with --delimiter"
    ),
    "table_reader.column_type": (
        "{path}: column '{column}' must hold text, numbers or dates, not {type}"
    ),
    "table_reader.empty": "the {column} is empty; fill it in or remove the row",
    "row_checks.unclear": "{path}:{line}: {problem}",
    "table_reader.line": "{path}:{line}: {problem}; --skip-bad skips such rows",
    "table_reader.line_break": (
        "the {column} {value!r} contains a line break; a name must be one line"
    ),
    "table_reader.no_rows": "{path}: the file has no rows, so there is nothing to import",
    "table_reader.not_utf8": "{path}: rows {first} to {last} hold text that is not UTF-8",
    "table_reader.row": "{path}: row {row}: {problem}; --skip-bad skips such rows",
    "date_formats.order": (
        "dates such as '{value}' are read with the {order} first, as '{shown}' shows; "
        "--{other}-first reads them the other way"
    ),
    "date_formats.other_order": (
        "the time '{value}' is no date with {option}; correct it, or leave that out"
    ),
    "date_formats.no_day": (
        "the time '{value}' has no day; correct it, or pass {format} and {granularity}"
    ),
    "date_formats.short_year": (
        "the year of the time '{value}' has two digits; correct it, or pass {formats}"
    ),
    "date_formats.table_order": (
        "dates such as '{value}' are read with the day first, as '{shown}' shows; "
        "ImportOptions(day_first=False) reads them the other way"
    ),
    "date_formats.table_unclear": (
        "the table: row {row}: the time '{value}' may have the day or the month first, and no "
        "other one tells; pass ImportOptions(day_first=True) or ImportOptions(day_first=False)"
    ),
    "date_formats.unclear": (
        "the time '{value}' may have the day or the month first, and no other one tells; "
        "pass --day-first or --month-first"
    ),
    "date_formats.unclear_both": (
        "the time '{value}' may have the day or the month first, and '{day}' and '{month}' differ; "
        "pass --day-first or --month-first"
    ),
    "table_reader.delimiter": ("{path}: the delimiter is {delimiter!r}; --delimiter sets another"),
    "table_reader.encoding": ("{path}: is not UTF-8, read as {encoding}; --encoding sets another"),
    "text_encoding.unknown": (
        "the encoding '{encoding}' is unknown; use one such as utf-8, utf-16 or cp1252"
    ),
    "time_grid.date_among_integers": (
        "the time '{value}' is a date, but those before it are integers; write all of them one way"
    ),
    "time_grid.empty": "the time is empty; fill it in or remove the row",
    "time_grid.far": "'{time}' is {steps} steps after the last one, {last}; is it a typo?",
    "time_grid.day_first": (
        "the time format '{time_format}' has an order of day and month; leave out day_first"
    ),
    "time_grid.for_dates": (
        "granularity '{granularity}' is for dates, but the times are integers, which are steps "
        "themselves; leave it out, or pass a time format such as '%Y%m%d' if they are dates"
    ),
    "time_grid.integer_among_dates": (
        "the time '{value}' is an integer, but those before it are dates; write all of them one way"
    ),
    "time_grid.look_like_dates": (
        "the times, from {first} to {last}, look like dates: "
        "pass the time format '{time_format}', or 'integer' if they count steps"
    ),
    "time_grid.missing": "the time is '{value}'; fill it in or remove the row",
    "time_grid.neither": (
        "the time '{value}' is neither a date such as 2014-01-31T05:00 nor an integer; "
        "correct it, or pass its time format, such as '%d/%m/%Y'"
    ),
    "time_grid.no_continuation": (
        "'{time}' is not on the time grid of {graph}, whose labels, {first} to {last}, "
        "are neither consecutive dates nor consecutive integers, so it cannot be extended"
    ),
    "time_grid.no_match": "the time '{value}' does not match the time format '{time_format}'",
    "time_grid.too_long_dates": (
        "the times run from {first} to {last}, which is {count} steps "
        "and more than 1,000,000; choose a coarser granularity"
    ),
    "time_grid.too_long_integers": (
        "the times run from {first} to {last}, which is {count} steps and more than 1,000,000; "
        "number them more coarsely, or pass a time format such as '%Y%m%d' if they are dates"
    ),
    "time_grid.too_long_seconds": (
        "the times run from {first} to {last}, which is {count} steps and more than 1,000,000; "
        "they look like seconds since 1970: pass the time format '%s' and a granularity"
    ),
    "time_parsing.directive": (
        "the time format '{time_format}' uses '{directive}', which is not a directive; "
        "the directives are %Y %y %m %b %B %d %a %A %H %I %p %M %S %f %z %s %%"
    ),
    "time_parsing.no_year": (
        "the time format '{time_format}' has no year; add %Y, %y or %s (seconds since 1970)"
    ),
    "time_parsing.twice": (
        "the time format '{time_format}' gives one part of the time twice; give each part once"
    ),
    # The synthetic world of the data package
    "world.at_least": "{argument} must be at least {least}, found {value}",
    "world.no_train_facts": (
        "valid_share {valid} and test_share {test} leave none of {facts} facts to train"
    ),
    "world.share": "{argument} must be above 0 and below 1, found {value}",
    "world.too_many_facts": (
        "{facts} facts do not fit: {entities} entities, {relations} relations and {steps} steps "
        "leave room for {room} and at most half of it is filled; ask for {limit} facts or fewer"
    ),
    # The layers of the nn package
    "entities.sparse_gradients": (
        "sparse_gradients are for entities fixed or projected, not those with several vectors; "
        "set train.sparse_gradients=false"
    ),
    # The models package
    "embedding_settings.drifting": "drifting vectors are for decoder gaussian, not {decoder}",
    "embedding_settings.even_dim": "decoder {decoder} needs an even dim, found {dim}",
    "embedding_settings.factored": (
        "factored relations are for decoder complex or distmult, not {decoder}"
    ),
    "embedding_settings.gaussian": (
        "decoder gaussian takes {setting} fixed or drifting, found {value}"
    ),
    "embedding_settings.l1": "distance l1 is for decoder transe, not {decoder}",
    "embedding_settings.planes": (
        "projected relations share the planes of projected entities; set entities=projected"
    ),
    "embedding_settings.reciprocal": (
        "reciprocal relations are fixed, factored or drifting, found {value}"
    ),
    "embedding_settings.variances": (
        "smallest_variance must be at most largest_variance, found {smallest} and {largest}"
    ),
    "ensemble_model.fitted_part": (
        "{model} cannot have another ensemble, {part}, as a part; name the parts of it"
    ),
    "ensemble_model.no_probabilities": (
        "{model} combines probabilities, and {part} does not give any; leave it out"
    ),
    "ensemble_settings.common_neighbors": (
        "common_neighbors needs candidate_hidden of at least 1, found {value}"
    ),
    "ensemble_settings.no_parts": (
        'an ensemble needs parts, such as parts=["complex", "temp-gru"]; found none'
    ),
    "registry.exists": (
        "package '{package}': entry point {entry} adds a model '{model}', which exists already; "
        "rename it, or uninstall the package"
    ),
    "registry.not_a_kind": (
        "package '{package}': entry point {entry} is not a ModelKind but {detail}; "
        "update or uninstall the package"
    ),
    "registry.not_loaded": (
        "package '{package}': entry point {entry} cannot be loaded ({detail}); "
        "update or uninstall the package"
    ),
    "registry.other_name": (
        "package '{package}': entry point {entry} adds a model of another name, '{detail}'; "
        "give both the same name, or uninstall the package"
    ),
    "registry.settings": (
        "package '{package}': entry point {entry}: the settings of a model must be a dataclass, "
        "found {detail}; update or uninstall the package"
    ),
    "ted.sigma": "sigma must be a number of at least 0 or 'auto', found {value}",
    "temp_settings.divides": "{setting} must divide dim = {dim}, found {value}",
    "temp_settings.even_dim": "decoder {decoder} needs an even dim, found {dim}",
    "temp_settings.no_temporal": (
        "gate and imputation need a temporal encoder; set gate=false and imputation=false"
    ),
    "temp_settings.rgcn_only": "{setting} is for structure rgcn, not {structure}",
    "growth.other_tables": "its tables for {before} relations do not fit {after}",
    "growth.unknown_axes": (
        "it does not say which axes of its weight '{weight}' count entities, relations or time "
        "steps (`weight_axes`)"
    ),
    # The evaluation package
    "evaluator.no_facts": (
        "{graph}: the {split} split has no facts, so there is nothing to evaluate"
    ),
    "interval_evaluation.no_known": (
        "{graph}: every {split} fact has an unknown start or end, so there is no interval to "
        "compare with a predicted one; ask for entities"
    ),
    "rank_table.not_a_table": "{path}: not a table of ranks: ",
    "ranking.cutoff": "Hits@k needs k of at least 1, found {value}",
    "ranking.nan": "a score is NaN, so its rank is undefined",
    "ranking.step_hits": ("Hits@k of facts that hold for a while needs k of at most 10, found {k}"),
    "relation_negatives.too_many": (
        "cannot sample {count} candidates from {entities} entities; take fewer negatives, or rank "
        "among all entities"
    ),
    # The training package
    "config.lacks_setting": "{path}: [run] lacks the setting '{setting}'",
    "config.no_model": "{path}: {problem}; if another package adds the model, install it",
    "config.no_gradient": "{model} is not trained by gradient and has no settings under train",
    "embedding_loss.dropout": (
        "decoder gaussian takes no dropout, which would set variances to 0; set train.dropout=0"
    ),
    "embedding_loss.negatives": "loss {loss} needs a number of negatives, found 'all'",
    "embedding_loss.one_sample": (
        "{model}'s entities change with time, so each time needs negatives of its own; "
        "set train.negative_sampling=uniform"
    ),
    "embedding_loss.season_penalty": (
        "season_penalty is for drifting entities or relations, found entities {entities} "
        "and relations {relations}; set train.season_penalty=0"
    ),
    "embedding_loss.smoothness": (
        "smoothness is for relations shifted or factored, not {relations}; set train.smoothness=0"
    ),
    "embedding_loss.whole_times": (
        "{model}'s entities change with time, so scoring all of them needs batches of "
        "whole time steps; set train.batch=times or train.negatives"
    ),
    "loop.diverged": (
        "epoch {epoch}: the loss became NaN; lower train.learning_rate from "
        "{learning_rate}, or clip gradients with train.clip"
    ),
    "preset_files.no_file": "{path}: no such preset file",
    "preset_files.no_preset": (
        "{model} has no preset '{preset}' for dataset {dataset}; there are {presets}"
    ),
    "preset_files.not_toml": "{path}: {reason}",
    "preset_files.not_utf8": "{path}: cannot be read: it is not UTF-8",
    "preset_files.run_table": (
        "{path}: a preset has no table 'run'; pass --protocol and --seed, and remove it"
    ),
    "preset_files.unknown_table": (
        "{path}: unknown table or setting '{table}'; did you mean {names}?"
    ),
    "question_models.forecaster": (
        "{graph}: a forecaster ranks entities, not relations or times, and does not search for "
        "missing facts; train a run with task complete for that"
    ),
    "question_models.completes": (
        "{graph}: {model} was trained to complete facts, not to forecast them; train a run with "
        "task forecast"
    ),
    "question_models.nothing_held_out": (
        "{graph}: its valid split has no facts, so the probability that a fact happens cannot be "
        "calibrated; import the data with some facts held out"
    ),
    "question_models.no_valid_facts": (
        "{data}: its valid split has no facts, so the probability that a fact is missing cannot be "
        "calibrated; import the data with some facts held out"
    ),
    "recipes.none": (
        "model {model} has no training recipe; its module must call "
        "register_recipe({settings}, ...); update or uninstall the package"
    ),
    "recipes.none_in_package": (
        "package '{package}': model {model} has no training recipe; its module must call "
        "register_recipe({settings}, ...); update or uninstall the package"
    ),
    "recipes.twice": "models with {settings} have a training recipe already",
    "run_evaluation.negatives": (
        "negatives are sampled only by the rules of TGB 2.0; pass the protocol tgb"
    ),
    "run_evaluation.tgb": (
        "the protocol tgb ranks entities by the filter time, found ask '{ask}' and filter "
        "'{filter}'; leave them out"
    ),
    "run_folder.changed_data": (
        "the data of this run changed: {path}; restore the file, or train the run again"
    ),
    "run_folder.damaged": "{path}: the run is damaged: {reason}",
    "run_folder.later_format": (
        "{path}: made by a later version (format {format}, here 1); update tempograph"
    ),
    "run_folder.no_run": "{path}: no run here; `tempograph train ... --out {path}` makes one",
    "run_folder.no_weights": (
        "{path}: model.safetensors holds no weights of tempograph; train the run again"
    ),
    "run_folder.size": (
        "{path}: config.toml asks for {setting} = {value}, which its weights do not have"
    ),
    "run_results.no_figures": "it has no {split} figures",
    "run_results.no_sections": "'config' must hold sections",
    "run_results.not_an_object": (
        "expected an object with dataset, model and figures, found {type}"
    ),
    "run_results.wrong_type": "'{key}' is missing or has the wrong type",
    "setting_values.misspelt": "{owner} has no setting '{setting}'; did you mean {names}?",
    "setting_values.no_section": (
        "'{override}': there is no section '{section}'; the sections are model and train"
    ),
    "setting_values.not_an_override": (
        "'{override}' is not an override; write section.setting=value, such as model.sigma=0.1"
    ),
    "setting_values.unknown": "{owner} has no setting '{setting}'",
    "setting_values.wrong_type": "{owner}: {setting} must be {kind}, found {value!r}",
    "settings.corrected_loss": (
        "loss {loss} takes negatives as they are drawn; set train.negative_sampling=uncorrected"
    ),
    "settings.from_the_step": (
        "negative_sampling {sampling} needs steps of random facts; "
        "set train.batch=facts or train.negative_sampling=uniform"
    ),
    "settings.number_of_negatives": (
        "{setting} needs a number of negatives, found 'all'; set train.negatives=4096"
    ),
    "settings.pointer_negatives": (
        "the pointer is trained against all entities, found negatives = {value}; "
        "set train.negatives=all"
    ),
    "settings.sparse_optimizer": (
        "sparse_gradients are for optimizer adagrad, found {optimizer}, which moves all entities "
        "in every step; set train.optimizer=adagrad"
    ),
    "settings.sparse_with": (
        "{setting} would touch all entities in every step, and sparse_gradients do not; "
        "set train.{setting}=0"
    ),
    "setup.no_past": (
        "{model} reads only the facts at the time of a question, which a forecast must not see; "
        "choose temp-gru or temp-sa"
    ),
    "setup.no_such_part": (
        "'{part}' cannot be a part of {model}: there is no such model or run folder; "
        "did you mean {names}?"
    ),
    "setup.other_data": "{path}: trained on other data than {graph}; train it again",
    "setup.other_protocol": "{path}: trained under protocol paper, not strict; train it again",
    "setup.unfinished_part": (
        "{path}: a part must be finished; run `tempograph resume {path}` first"
    ),
    "train_state.damaged": "{path}: the checkpoint is damaged: {reason}",
    "train_state.other_device": (
        "{path}: made on {device}, and random numbers differ on {here}; use --device {device}"
    ),
    "trainer.finished": "{path}: this run is finished; train another one, or evaluate it",
    "lost_processes.timeout": (
        "TEMPOGRAPH_PROCESS_TIMEOUT must be a number of seconds above 0, found '{found}'"
    ),
    "trainer.no_epoch": (
        "{path}: no epoch is finished yet; continue with `tempograph resume {path}`"
    ),
    "trainer.no_valid_facts": (
        "{graph}: {model} needs the valid split {use}, and it has no facts; import the data with "
        "some facts held out"
    ),
    "answering.new_names": "{model} cannot take new names: {reason}; train it again",
    "run_update.epochs": "train must be a number of epochs from 0, found {value}",
    "run_update.fixed": "{model} cannot be updated: {reason}; train it again",
    "run_update.unfinished": (
        "{model} on {dataset} is not finished, so it cannot be updated; {way_out}"
    ),
    "update_facts.far": (
        "{place}: '{time}' is {far} after the last fact before it, {last}, and adds {steps} steps; "
        "is it a typo?"
    ),
    "update_storage.updated": (
        "{path}: was updated by another command since it was loaded; load it again"
    ),
    # The prediction package
    "predictor.side": "side must be object or subject, found '{value}'",
    "predictor.top": "top must be at least 1, found {value}",
    "questions.columns": (
        "the table: a question has three of the columns subject, relation, object, time; "
        "'{column}' is not among {columns}"
    ),
    "questions.nested": "the table: the {part} must be text, numbers or dates, found {kind}",
    "batch_answers.no_evidence": "no candidate has any evidence",
    "questions.one_missing": (
        "exactly one of subject, relation, object, time must be missing, found {count}"
    ),
    "batch_answers.question": "question {row}: {problem}",
    "scenario.absent": "{fact} is not among the facts that the model uses",
    "scenario.present": ("{fact} is already among the facts that the model uses; remove it first"),
    "scenario.period_backwards": (
        "the period from {first} to {last} holds no time step; its end must not be before its start"
    ),
    "scenario.three_parts": "give three parts of a fact; more than one of them is None",
    "question_models.not_calibrated": (
        "{data}: its valid split has no facts, so nothing can be calibrated"
    ),
    "predictor.new": "new must be refuse or add, found '{value}'",
    "predictor.new_intervals": (
        "new leaves out steps, but the answers are intervals; leave it out"
    ),
    "predictor.no_folder": "the run has no folder yet; pass the path of one",
    "scenario.removed": (
        "facts of the run were removed, and a saved run keeps its facts; add them again"
    ),
    "backtesting.train": (
        "the model was trained on the train facts; replay those of valid or test"
    ),
    "outlook.days": (
        "days must be at most {most}, found {found}: a forecast reaches at most 10,000 steps after "
        "the last one, {last}"
    ),
    "outlook.first": (
        "nothing is known before {first}, so it cannot be forecast; choose a later date"
    ),
    "scenario.unclear": (
        "the time '{value}' may have the day or the month first; write it as YYYY-MM-DD"
    ),
    "time_notes.completion": (
        "{model} was trained to complete facts inside the period of its data, and takes the "
        "weights of {last} for later steps; runs with --task forecast are made for questions "
        "about the future"
    ),
    # The report package
    "run_report.no_runs": (
        "a report needs a run and a window of at least 1; found {runs} and {window}"
    ),
    "run_report.suffix": "{path}: a report ends in .html or .md",
    "trust_report.not_measured": (
        "{path}: it was not measured on test; run 'tempograph evaluate {path} --ask all' first"
    ),
    # The experiments package
    "autofit.keep_holdout": (
        "a forecaster answers from all facts before a question, those held out included; leave "
        "out keep_holdout"
    ),
    "autofit.random_split": (
        "a forecast is measured on facts after those it learns from, so they cannot be split at "
        "random; leave out split, or choose chronological"
    ),
    "autofit.search": "a search compares models of task complete; leave out minutes",
    "comparison.no_seed": "compare needs at least one seed, found 0",
    "comparison.no_test_facts": (
        "{graph}: the test split has no facts, so there is nothing to compare models by"
    ),
    "reproduction.unknown": "'{value}' cannot be reproduced; did you mean {names}?",
    "required_runs.no_facts": (
        "{graph}: the {split} split has no facts, so there is nothing to measure models by"
    ),
    "results.not_a_result": "{path}: not a result: {reason}",
    "specs.not_a_run": "{path}: exists and is not a run; choose another --out, or remove it",
    "specs.other_data": (
        "{path}: a run on other data of the name {graph}; choose another --out, or remove it"
    ),
    "specs.other_settings": (
        "{path}: a run with other settings ({setting} is {there}, not {wanted}); "
        "choose another --out, or remove it"
    ),
    "trials.combines": (
        "a search combines models itself, so it cannot be one of {model}; "
        "leave out the model or the minutes"
    ),
    "trials.no_setting": "none of the models has a setting '{setting}'; did you mean {names}?",
    "history.not_by_time": (
        "{dataset}: a forecast needs splits by time, but {split} starts at {start}, and train ends "
        "at {end}; import the data with --split chronological"
    ),
    "ensemble_fit.one_step": (
        "{dataset}: a gate is fitted on the last train facts, but all of them are at {step}; train "
        "on more steps, or set model.fit_on=valid"
    ),
    "questions.no_intervals": (
        "{graph}: its facts hold for a while, and a table of questions has no room for intervals; "
        "ask when with Predictor.when, one fact at a time"
    ),
    "run_protocol.config": (
        "{about}: it was trained under protocol {trained}, but its config.toml says {own}; restore "
        "config.toml, or train it again with protocol {own}"
    ),
    "run_protocol.task": (
        "{about}: it cannot be evaluated under protocol {protocol}, because it was trained under "
        "{own}; train it again with protocol {protocol}, on a split that fits it"
    ),
    "run_protocol.intervals": (
        "{about}: forecasts of facts that hold for a while are not evaluated; train a run with "
        "task complete"
    ),
    "run_audit.intervals": (
        "{path}: audits are for events, and the facts of {graph} hold for a while; tempograph "
        "evaluate ranks them"
    ),
    "run_audit.no_test_facts": (
        "{path}: its test split has no facts, so there is nothing to ask about"
    ),
    # The client
    "replies.no_json": "a line of the response is not from tempograph: {line!r}",
    "replies.unfinished": "the service ended the search before it was finished; try again",
    "requests.no_address": (
        "'{url}' is not the address of a service; write it as http://HOST:PORT"
    ),
    "requests.no_httpx": "a client needs httpx2; install it with: pip install 'tempograph[client]'",
    "rows.no_column": "the table: there is no column '{column}' among {columns}; add it",
    "rows.not_a_part": ("row {row}: a part of a fact is a name, an id or a time, found {value!r}"),
    # The server
    "completions.one_missing": (
        "give three of subject, relation, object and time; the answers are the fourth"
    ),
    "batch_completions.too_many": (
        "a batch has at most 100,000 answers, found {questions} questions with {top} each; "
        "send several"
    ),
    "cross_origin.no_origin": (
        "'{origin}' is not an origin; write it as https://HOST or https://HOST:PORT, in lower case "
        "and without a path"
    ),
    "limits.above_0": "the limit '{limit}' must be above 0, found {value}",
    "middleware.repeated": "the header {header} is given more than once",
    "middleware.timeout": "the request took more than {seconds} s",
    "problems.no_folder": (
        "the run '{run}' was not loaded from a folder; the run goes on as it was"
    ),
    "problems.stopping": "the service is shutting down; try again later",
    "problems.unknown_in_batch": "facts.{index}.{part}: there is no {part} '{name}'",
    "request_bodies.content_type": "send JSON with the header Content-Type: application/json",
    "service.no_runs": "name at least one run folder to serve",
    "service.no_name": "'{argument}' needs a name and a folder; write NAME=FOLDER",
    "service.same_name": "two runs are named '{run}'; rename one: NAME={folder}",
    # The command line
    "evaluate.tgb": (
        "--protocol tgb ranks entities and has no targets; leave out --ask and --check"
    ),
    "evaluate.paper": "--protocol paper ranks entities; leave out --ask",
    "evaluate.audit": (
        "--audit checks the figures of entities with filter time; leave out --ask, --check, "
        "--filter and --protocol tgb"
    ),
    "predict.none": "{count}; the first is {path}:{line}: {problem}",
    "reporting.no_file": "name the file of the report with --out, or pass --trust",
    "reporting.one_run": "a trust report is about one run, found {count}",
    "train.unfinished": (
        "{path} holds an unfinished run; "
        "continue it with: tempograph resume {path}, or pass --overwrite"
    ),
}


def message(name: str, /, **values: object) -> str:
    """The message of that name, with its placeholders filled in."""
    return MESSAGES[name].format(**values)


@contextmanager
def raises(
    error: type[Exception], name: str, /, **values: object
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error with exactly this message."""
    with pytest.raises(error) as caught:
        yield caught
    assert str(caught.value) == message(name, **values)
