#!/usr/bin/python3
"""Compare every record of a staged-out selection with the catalogue on the parallel file system, read directly."""

import argparse
import os

import h5py

from star_index import COLUMNS, StarIndex


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("selection", help="the HDF5 file that was staged out")
    parser.add_argument("--catalogue", default="/usr/share/astrometry", help="the catalogue's own folder")
    options = parser.parse_args()

    equal = different = 0
    with h5py.File(options.selection, "r") as selection:
        names = [name.decode() for name in selection["file_name"][:]]
        indexes = [StarIndex(os.path.join(options.catalogue, name)) for name in names]
        files, rows, positions = selection["file"][:], selection["row"][:], selection["position"][:]
        columns = {name: selection[name][:] for name in COLUMNS if name in selection}
        for star, (number, row) in enumerate(zip(files, rows)):
            index = indexes[number]
            same = tuple(positions[star]) == index.raw_position(int(row)) and all(
                values[star] == index.column(name, int(row)) for name, values in columns.items()
            )
            if same:
                equal += 1
            else:
                different += 1
                if different <= 10:
                    print(f"different: star {star}, row {row} of {names[number]}")
        expected = len(rows)

    print(f"{equal} of {expected} selected stars are equal to the catalogue in {options.catalogue}")
    raise SystemExit(1 if different or not expected else 0)


if __name__ == "__main__":
    main()
