//! Tables that fit the width of a terminal and name the omitted columns.

use std::fmt;
use std::io::IsTerminal as _;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

/// Width without a terminal, in characters.
const WIDTH: u16 = 120;
/// Spaces around a cell's text, width between two cells, and borders at both ends of a row.
const PADDING: u16 = 2;
const BETWEEN: u16 = 1;
const BORDERS: u16 = 2;
/// Maximum length of a word that is not broken: a digest.
const WORD: usize = 64;

/// Maximum width of a table.
pub(super) fn width() -> u16 {
    let terminal = || Table::new().width();
    let is_terminal = std::io::stdout().is_terminal();
    is_terminal.then(terminal).flatten().unwrap_or(WIDTH)
}

/// A table, and the titles of omitted columns.
pub(super) struct Fitted {
    table: Table,
    left_out: Vec<String>,
}

impl Fitted {
    /// Whether no column is omitted.
    pub(super) const fn is_whole(&self) -> bool {
        self.left_out.is_empty()
    }
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.table)?;
        let named: Vec<&str> = self.left_out.iter().map(String::as_str).collect();
        let named = named.join(", ");
        match self.left_out.len() {
            0 => Ok(()),
            1 => writeln!(f, "One column is left out ({named}): --json shows it"),
            more => writeln!(
                f,
                "{more} columns are left out ({named}): --json shows them"
            ),
        }
    }
}

/// Formats rows under titles. Columns get space in order; a column is omitted if its longest word does not fit.
/// Longer texts are wrapped.
pub(super) fn fit(titles: Vec<String>, rows: Vec<Vec<String>>, width: u16) -> Fitted {
    let least: Vec<u16> = (0..titles.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            least(cells.chain(titles.get(column)))
        })
        .collect();
    let mut room = width.saturating_sub(BORDERS) + BETWEEN;
    let kept: Vec<bool> = least
        .iter()
        .map(|least| {
            let rest = room.checked_sub(least + PADDING + BETWEEN);
            room = rest.unwrap_or(room);
            rest.is_some()
        })
        .collect();
    let is_kept = |column: &usize| kept.get(*column).copied().unwrap_or(false);
    let chosen = |row: Vec<String>| {
        let cells = row.into_iter().enumerate();
        let cells = cells.filter(|(column, _)| is_kept(column));
        cells.map(|(_, cell)| cell).collect::<Vec<_>>()
    };
    let mut table = table(presets::UTF8_BORDERS_ONLY, width);
    let left_out = titles.iter().enumerate();
    let left_out = left_out.filter(|(column, _)| !is_kept(column));
    let left_out = left_out.map(|(_, title)| title.clone()).collect();
    table.set_header(chosen(titles));
    for row in rows {
        table.add_row(chosen(row));
    }
    let least = least.into_iter().zip(&kept).filter(|(_, kept)| **kept);
    for (column, (least, _)) in table.column_iter_mut().zip(least) {
        let width = Width::Fixed(least + PADDING);
        column.set_constraint(ColumnConstraint::LowerBoundary(width));
    }
    Fitted { table, left_out }
}

/// Formats a table of names and values.
pub(super) fn pairs(fields: &[[String; 2]], width: u16) -> String {
    let mut table = table(presets::UTF8_BORDERS_ONLY, width);
    fill(&mut table, fields);
    format!("{table}\n")
}

/// Formats a table of names and values without borders.
pub(super) fn bare(fields: &[impl AsRef<[String]>], width: u16) -> String {
    let mut table = table(presets::NOTHING, width);
    fill(&mut table, fields);
    let text = table.to_string();
    let lines = text.lines().map(|line| {
        let line = line.strip_prefix(' ').unwrap_or(line);
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Adds rows. Only the last column is wrapped.
fn fill(table: &mut Table, rows: &[impl AsRef<[String]>]) {
    let mut columns = 0;
    for row in rows {
        columns = columns.max(row.as_ref().len());
        table.add_row(row.as_ref());
    }
    for column in table.column_iter_mut().take(columns.saturating_sub(1)) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

fn table(preset: &str, width: u16) -> Table {
    let mut table = Table::new();
    table.load_preset(preset);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width);
    table
}

/// Length of the longest word in some cells, at most [`WORD`].
fn least<'a>(cells: impl Iterator<Item = &'a String>) -> u16 {
    let words = cells.flat_map(|cell| cell.split_whitespace());
    let longest = words.map(|word| word.chars().count()).max().unwrap_or(0);
    u16::try_from(longest.min(WORD)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
        texts.map(str::to_owned).to_vec()
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn what_does_not_fit_is_left_out_from_the_end_and_named() {
        let id = "a".repeat(32);
        let titles = ["ID", "Other", "Payment", "Short", "Attempt"];
        let row = texts([&id, &id, &id, "x", &id]);
        let fitted = fit(texts(titles), vec![row.clone()], 120);
        let text = fitted.to_string();
        assert!(widest(&text) <= 120, "{text}");
        assert_eq!(text.matches(&id).count(), 3, "{text}");
        assert!(text.contains("Short"), "one behind it has room: {text}");
        assert!(text.ends_with("One column is left out (Attempt): --json shows it\n"));
        let narrow = fit(texts(titles), vec![row.clone()], 60).to_string();
        assert!(narrow.contains("3 columns are left out (Other, Payment, Attempt): --json"));
        let wide = fit(texts(titles), vec![row], 200);
        assert!(wide.is_whole() && !wide.to_string().contains("left out"));
    }

    #[test]
    fn texts_are_wrapped_between_words_and_only_what_is_too_long_within() {
        let id = "b".repeat(32);
        let sentence = "the module says no because of this and that ".repeat(5);
        let rows = vec![texts([&id, &sentence, "2030-01-31T12:00:00.000Z"])];
        let text = fit(texts(["ID", "Why", "At"]), rows, 120).to_string();
        assert!(widest(&text) <= 120, "{text}");
        assert!(text.contains(&id) && text.contains("2030-01-31T12:00:00.000Z"));
        assert_eq!(text.matches("because").count(), 5, "{text}");
        let address = format!("https://shop.example/{}", "c".repeat(200));
        let rows = vec![texts([&id, &address])];
        let text = fit(texts(["ID", "Address"]), rows, 120).to_string();
        assert!(widest(&text) <= 120 && text.contains(&id), "{text}");
        assert!(!text.contains("left out"));
    }

    #[test]
    fn names_stay_whole_beside_values_of_any_length() {
        let fields = ["a_name_of_a_field", "b"].map(|name| [name.to_owned(), "word ".repeat(60)]);
        let text = pairs(&fields, 120);
        assert!(widest(&text) <= 120 && text.contains("a_name_of_a_field"));
        let text = bare(&fields, 80);
        assert!(
            widest(&text) <= 80 && text.starts_with("a_name_of_a_field  word"),
            "{text}"
        );
    }
}
