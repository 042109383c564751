"""The star tables of an astrometry.net index file, read one record at a time.

An index file is a FITS file whose tables hold raw records: astropy finds a table by its column's name and says where
its bytes start; a record is then one seek and one small read. Star positions are points on the unit sphere, stored by
a kd-tree as three little-endian 32-bit integers that the tree's range table scales; the other columns are ordinary
big-endian FITS columns.
"""

import glob
import os
import struct

from astropy.io import fits

# Column of the table, layout of one record.
POSITION = ("kdtree_data_stars", "<3I")
RANGE = ("kdtree_range_stars", "<7d")
COLUMNS = {"MAG_VT": ">f", "sweep": ">B"}


def find_indexes(folder):
    """The catalogue's index files in `folder`, in order of their names."""
    paths = sorted(glob.glob(os.path.join(folder, "index-tycho2-*.fits")))
    if not paths:
        raise SystemExit(f"no index-tycho2-*.fits in {folder}")
    return paths


class StarIndex:
    """One open index file."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        self.start = {}
        with fits.open(path, memmap=True) as tables:
            for table in tables[1:]:
                self.start[table.columns[0].name] = table.fileinfo()["datLoc"]
                if table.columns[0].name == POSITION[0]:
                    self.star_count = table.header["NAXIS2"]
        self.file = open(path, "rb", buffering=0)
        self.range = self._read(RANGE[0], RANGE[1], 0)

    def _read(self, column, layout, row):
        size = struct.calcsize(layout)
        self.file.seek(self.start[column] + row * size)
        record = self.file.read(size)
        if len(record) != size:
            raise SystemExit(f"{self.name}: {column} row {row}: {len(record)} of {size} bytes")
        return struct.unpack(layout, record)

    def raw_position(self, row):
        """The three integers of star `row`."""
        return self._read(*POSITION, row)

    def position(self, raw):
        """The point on the unit sphere that `raw` stands for."""
        low, scale = self.range[:3], self.range[6]
        return tuple(minimum + value / scale for minimum, value in zip(low, raw))

    def column(self, name, row):
        """The value of column `name` of star `row`."""
        return self._read(name, COLUMNS[name], row)[0]
