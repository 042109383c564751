#!/usr/bin/python3
"""Select stars at random positions of a catalogue and write them to an HDF5 file, with where each one came from."""

import argparse
import math
import os
import random

import h5py
import numpy

from star_index import COLUMNS, StarIndex, find_indexes


def read_request(path):
    """The request's `name value` pairs."""
    with open(path, encoding="ascii") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    request = {words[0]: words[1:] for words in lines}
    columns = [name for name in request["columns"] if name != "position"]
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise SystemExit(f"{path}: unknown column {unknown[0]}; known are position {' '.join(COLUMNS)}")
    return int(request["seed"][0]), int(request["stars"][0]), columns


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--catalogue", required=True, help="folder of index-tycho2-*.fits")
    parser.add_argument("--request", required=True, help="text file with seed, stars and columns")
    parser.add_argument("--output", required=True, help="HDF5 file to write")
    options = parser.parse_args()

    seed, count, columns = read_request(options.request)
    indexes = [StarIndex(path) for path in find_indexes(options.catalogue)]
    total = sum(index.star_count for index in indexes)
    chooser = random.Random(seed)

    files, rows, raw, points = [], [], [], []
    values = {name: [] for name in columns}
    for position in (chooser.randrange(total) for _ in range(count)):
        number = 0
        while position >= indexes[number].star_count:
            position -= indexes[number].star_count
            number += 1
        index = indexes[number]
        files.append(number)
        rows.append(position)
        raw.append(index.raw_position(position))
        points.append(index.position(raw[-1]))
        for name in columns:
            values[name].append(index.column(name, position))

    x, y, z = numpy.array(points).T
    with h5py.File(options.output, "w") as output:
        output.attrs["seed"] = seed
        output.attrs["stars_in_catalogue"] = total
        output.create_dataset("file_name", data=[index.name for index in indexes])
        output.create_dataset("file", data=numpy.array(files, "u2"))
        output.create_dataset("row", data=numpy.array(rows, "u4"))
        output.create_dataset("position", data=numpy.array(raw, "u4"), chunks=(1024, 3), compression="gzip")
        output.create_dataset("right_ascension_deg", data=numpy.degrees(numpy.arctan2(y, x)) % 360.0)
        output.create_dataset("declination_deg", data=numpy.degrees(numpy.arcsin(numpy.clip(z, -1.0, 1.0))))
        for name in columns:
            output.create_dataset(name, data=numpy.array(values[name], COLUMNS[name][-1]))
    worst = max(abs(math.hypot(*point) - 1.0) for point in points)
    print(f"selected {count} of {total} stars in {len(indexes)} files, wrote {os.path.basename(options.output)}")
    if worst > 1e-6:
        raise SystemExit(f"a star is not on the unit sphere: off by {worst}")


if __name__ == "__main__":
    main()
