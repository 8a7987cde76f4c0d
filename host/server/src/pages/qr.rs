//! QR codes as inline SVG.

use std::fmt::Write as _;

use qrcode::{Color, QrCode};

/// Width of the white border, in modules, which cameras need (ISO/IEC 18004: at least four).
const QUIET: usize = 4;

/// A code's drawing: one path over a square, in units of modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drawing {
    /// Width and height including the border.
    pub(crate) side: usize,
    /// The dark modules as SVG path data: only digits, spaces and the letters `M h v z`.
    pub(crate) path: String,
}

/// Draws a text. `None` if it is too long for a QR code.
pub(crate) fn draw(text: &str) -> Option<Drawing> {
    let code = QrCode::new(text).ok()?;
    let width = code.width();
    let colors = code.to_colors();
    let mut path = String::new();
    for (y, row) in colors.chunks(width).enumerate() {
        let mut x = 0;
        for run in row.chunk_by(|a, b| a == b) {
            let length = run.len();
            if run.first() == Some(&Color::Dark) {
                let (left, top) = (x + QUIET, y + QUIET);
                // Writing to a string cannot fail.
                let _ = write!(path, "M{left} {top}h{length}v1h-{length}z");
            }
            x += length;
        }
    }
    Some(Drawing {
        side: width + 2 * QUIET,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_holds_only_path_letters_whatever_the_text() {
        let drawing = draw("upi://pay?pa=\"><script>").unwrap();
        assert!(drawing.path.starts_with("M4 4h7v1h-7z"), "a finder pattern");
        assert!(drawing.path.chars().all(|c| "Mhvz- 0123456789".contains(c)));
    }

    #[test]
    fn what_no_code_can_hold_is_left_out() {
        assert_eq!(draw(&"x".repeat(5000)), None);
    }
}
