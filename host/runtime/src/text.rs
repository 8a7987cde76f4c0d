//! Sanitizes text from guests before people see it.

/// Removes characters that could forge a line, or hide or reorder other text: control characters and invisible
/// formatting characters.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => clean.push(' '),
            c if c.is_control() || is_steering(c) => {}
            c => clean.push(c),
        }
    }
    clean
}

/// Whether a character is a bidirectional control, an invisible separator or the byte order mark.
fn is_steering(c: char) -> bool {
    matches!(c,
        '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Sanitizes text and cuts it to at most this many bytes, at a character boundary.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let mut clean = clean(text);
    clean.truncate(clean.floor_char_boundary(most));
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_forge_or_reorder_text_is_taken_out() {
        assert_eq!(
            clean("pay\u{202e}dlog\u{0} \u{1b}[31mnow\nnext"),
            "paydlog [31mnow next"
        );
        assert_eq!(clean("Überweisung 支払い ✓"), "Überweisung 支払い ✓");
    }

    #[test]
    fn cutting_keeps_whole_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
    }
}
