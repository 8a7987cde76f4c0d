//! Text that a guest wrote: what is taken out before a person sees it.

/// Text without what could forge a line, hide or reorder what follows: control characters and the
/// invisible ones that steer direction.
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

/// Bidirectional controls, invisible separators and the byte order mark.
fn is_steering(c: char) -> bool {
    matches!(c,
        '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Clean text, cut to a number of bytes at a character's end.
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
