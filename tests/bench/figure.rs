//! Measured values, the floors for comparison, and goals.

use std::fmt::Write as _;

use serde_json::json;

/// Goal of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// Minimum ratio to the floor.
    Ratio(f64),
    /// Maximum value.
    AtMost(f64),
}

/// A line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    floor: Option<Floor>,
    goal: Option<Goal>,
}

#[derive(Clone, Debug)]
struct Floor {
    name: String,
    value: f64,
    ratio: f64,
}

impl Figure {
    /// A value without a floor. `unit` is spelled out, such as `requests/s`, `ms` or `MB`.
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            floor: None,
            goal: None,
        }
    }

    /// Adds a floor of the same run. `ratio` is the median of the ratios per round, which varies less than the
    /// ratio of two medians.
    pub(crate) fn against(mut self, floor: impl Into<String>, value: f64, ratio: f64) -> Self {
        self.floor = Some(Floor {
            name: floor.into(),
            value,
            ratio,
        });
        self
    }

    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Whether the goal is reached. Always true if there is no goal.
    pub(crate) fn holds(&self) -> bool {
        match self.goal {
            None => true,
            Some(Goal::Ratio(least)) => {
                let ratio = self.floor.as_ref().map(|floor| floor.ratio);
                ratio.is_some_and(|ratio| ratio >= least)
            }
            Some(Goal::AtMost(most)) => self.value <= most,
        }
    }

    fn cells(&self) -> [String; 7] {
        let (floor, ratio) = self.floor.as_ref().map_or_else(Default::default, |floor| {
            let shown = format!("{} {}", floor.name, number(floor.value));
            (shown, format!("{:.3}", floor.ratio))
        });
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::Ratio(least)) => format!("ratio >= {least}"),
            Some(Goal::AtMost(most)) => format!("<= {} {}", number(most), self.unit),
        };
        let held = match (self.goal, self.holds()) {
            (None, _) => "",
            (_, true) => "yes",
            (_, false) => "NO",
        };
        let name = self.name.clone();
        let unit = self.unit.to_owned();
        [
            name,
            number(self.value),
            unit,
            floor,
            ratio,
            goal,
            held.to_owned(),
        ]
    }
}

/// A number with three or more digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats the figures as a table.
pub(crate) fn table(figures: &[Figure]) -> String {
    const HEAD: [&str; 7] = ["figure", "value", "unit", "floor", "ratio", "goal", "held"];
    /// Whether a column is right-aligned.
    const RIGHT: [bool; 7] = [false, true, false, true, true, false, false];
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(figures.iter().map(Figure::cells));
    let width =
        |column: usize| -> usize { rows.iter().map(|row| row[column].len()).max().unwrap_or(0) };
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = if RIGHT[column] {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Formats the figures as JSON: `{"figures":[{name, value, unit, floor:{name, value}|null, ratio, goal, held}]}`.
pub(crate) fn json(figures: &[Figure]) -> String {
    let each = figures.iter().map(|figure| {
        let floor = figure.floor.as_ref();
        let goal = figure.goal.map(|goal| match goal {
            Goal::Ratio(least) => json!({ "ratio_at_least": least }),
            Goal::AtMost(most) => json!({ "at_most": most }),
        });
        json!({
            "name": figure.name,
            "value": figure.value,
            "unit": figure.unit,
            "floor": floor.map(|floor| json!({ "name": floor.name, "value": floor.value })),
            "ratio": floor.map(|floor| floor.ratio),
            "goal": goal,
            "held": figure.goal.map(|_| figure.holds()),
        })
    });
    let all: Vec<_> = each.collect();
    format!("{:#}\n", json!({ "figures": all }))
}

/// The median. With an even number of values it is the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}
