//! Tables of text with aligned columns, which the commands print.
//!
//! Padding and escaping is all that is needed, and less than a crate for tables brings.

use vireo::visible_text::visible;

/// A table whose columns are as wide as their widest cell.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with a header. A header that begins with `>` is that of a column of numbers.
    pub fn new(header: &[&str]) -> Table {
        let right = header.iter().map(|cell| cell.starts_with('>')).collect();
        Table { rows: vec![header.iter().map(|cell| cell.trim_start_matches('>').to_string()).collect()], right }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| visible(&cell)).collect());
    }

    /// The table as lines, indented by two spaces. Nothing if there is no row.
    pub fn to_text(&self) -> String {
        if self.rows.len() == 1 {
            return String::new();
        }
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths = (0..self.right.len()).map(|column| width(column).unwrap_or(0)).collect::<Vec<_>>();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::from(" ");
            for (column, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[column] - cell.chars().count());
                let (before, after) = if self.right[column] { (padding.as_str(), "") } else { ("", padding.as_str()) };
                line.extend([" ", before, cell, after, " "]);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&[">#", "name", ">bytes"]);
        assert_eq!(table.to_text(), "");
        table.row(["0".into(), "a\nb".into(), "10".into()]);
        table.row(["12".into(), "long name".into(), "7".into()]);
        assert_eq!(table.to_text(), "   #  name       bytes\n   0  a\\nb          10\n  12  long name      7\n");
    }
}
