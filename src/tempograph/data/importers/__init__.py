"""Importers: tables of dated events and the event files of ICEWS and GDELT."""
