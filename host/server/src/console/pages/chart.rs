//! Charts as inline SVG. The lines stretch with the page; the texts outside them do not. Each chart stands next to a
//! table with its figures.

/// A chart over time.
pub(super) struct Chart {
    /// Id of its title.
    pub(super) id: &'static str,
    /// What it shows, for readers who do not see it.
    pub(super) title: String,
    /// Largest value of the axis, half of it, and zero, as texts.
    pub(super) axis: [String; 3],
    /// Class and path of each shape, in a square of 100 by 100.
    pub(super) shapes: Vec<(&'static str, String)>,
}

/// A mark on the time axis of every chart.
pub(super) struct Mark {
    pub(super) letter: char,
    /// Position in the charts, in percent of their width with the axis.
    pub(super) x: String,
}

/// Share of a chart's width that its axis leaves.
const PLOT: f64 = 0.9;

impl Mark {
    /// The mark of a change; `position` is its part of the span.
    pub(super) fn new(index: usize, position: f64) -> Option<Self> {
        let letter = u8::try_from(index).ok()?.checked_add(b'A')?;
        Some(Self {
            letter: letter.is_ascii_uppercase().then_some(letter.into())?,
            x: format!("{:.1}", position.clamp(0.0, 1.0) * 100.0 * PLOT),
        })
    }
}

/// The smallest round number that is not smaller, for the end of an axis.
pub(super) fn round_up(value: u64) -> u64 {
    let mut unit = 1_u64;
    loop {
        for step in [1, 2, 4, 6, 10] {
            let round = unit.saturating_mul(step);
            if round >= value && round >= 2 {
                return round;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

/// Position of a value from the top, in percent of the axis.
#[expect(clippy::cast_precision_loss, reason = "positions are for drawing")]
fn height(value: u64, axis: u64) -> f64 {
    100.0 - value.min(axis) as f64 * 100.0 / axis.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "positions are for drawing")]
fn across(index: usize, count: usize) -> f64 {
    index as f64 * 100.0 / count.max(1) as f64
}

/// Bars, one for each value.
pub(super) fn bars(values: &[u64], axis: u64) -> String {
    let width = across(1, values.len()) * 0.74;
    let bars = values.iter().enumerate().map(|(index, value)| {
        let (x, y) = (across(index, values.len()), height(*value, axis));
        format!("M{x:.2} 100V{y:.1}h{width:.2}V100Z")
    });
    bars.collect()
}

/// A line through the values, which is interrupted if there is no value.
pub(super) fn line(values: &[Option<u64>], axis: u64) -> String {
    let mut path = String::new();
    let mut command = 'M';
    for (index, value) in values.iter().enumerate() {
        match value {
            Some(value) => {
                // In the middle of its part of the span.
                let x = (across(index, values.len()) + across(index + 1, values.len())) / 2.0;
                path.push_str(&format!("{command}{x:.2} {:.1}", height(*value, axis)));
                let next = values.get(index + 1);
                if command == 'M' && !matches!(next, Some(Some(_))) {
                    // A value without neighbors is a short stroke.
                    path.push_str("h1");
                }
                command = 'L';
            }
            None => command = 'M',
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (value, end) in [(0, 2), (3, 4), (10, 10), (41, 60), (412, 600), (1011, 2000)] {
            assert_eq!(round_up(value), end);
        }
        assert_eq!(round_up(u64::MAX), u64::MAX);
    }

    #[test]
    fn shapes_stay_within_their_square() {
        assert_eq!(
            bars(&[0, 2], 4),
            "M0.00 100V100.0h37.00V100ZM50.00 100V50.0h37.00V100Z"
        );
        let values = [Some(4), None, Some(9), Some(0)];
        assert_eq!(line(&values, 4), "M12.50 0.0h1M62.50 0.0L87.50 100.0");
        assert_eq!((bars(&[], 4), line(&[], 4)), (String::new(), String::new()));
    }

    #[test]
    fn marks_have_the_letters_of_the_alphabet() {
        let mark = Mark::new(25, 0.5).unwrap();
        assert_eq!((mark.letter, &*mark.x), ('Z', "45.0"));
        assert!(Mark::new(26, 0.5).is_none());
    }
}
