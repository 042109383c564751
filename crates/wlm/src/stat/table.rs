//! A table: columns aligned right, a space between them, no cell empty.

use std::fmt;

use model::size;

/// How sizes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// `7.28TiB`.
    Human,
    /// Digits.
    Bytes,
}

impl Units {
    /// A size without a space in it.
    pub fn size(self, bytes: u64) -> String {
        match self {
            Units::Human => size::display(bytes).replace(" bytes", "").replace(' ', ""),
            Units::Bytes => bytes.to_string(),
        }
    }
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    header: &'static [&'static str],
    rows: Vec<Vec<String>>,
    /// What its rows are, for a sentence that says that there are none.
    pub none: &'static str,
}

impl Table {
    /// A table of rows that have as many cells as the header.
    pub(crate) fn new(
        none: &'static str,
        header: &'static [&'static str],
        rows: impl Iterator<Item = Vec<String>>,
    ) -> Table {
        Table { header, rows: rows.collect(), none }
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header: Vec<String> = self.header.iter().map(|&name| name.to_owned()).collect();
        let lines = || std::iter::once(&header).chain(&self.rows);
        let width = |column: usize| lines().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        for line in lines() {
            let cells: Vec<String> =
                line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            writeln!(f, "{}", cells.join(" "))?;
        }
        Ok(())
    }
}
