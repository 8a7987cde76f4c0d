//! Visibility of characters in texts.

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Whether a character changes the direction of the text around it (Unicode, UAX 9: explicit formatting). Such
/// characters can make one order look like another.
pub fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character controls a terminal or the direction of the text around it.
pub fn steers(c: char) -> bool {
    c.is_control() || is_bidi_control(c)
}

/// Whether a character is invisible: white space, controls, formats, characters that Unicode's renderers leave out
/// (zero-width characters, variation selectors, Hangul fillers), and symbols with an empty glyph.
pub fn is_blank(c: char) -> bool {
    // U+2800 is Braille without a dot, U+1D159 a note without a head, the others are fillers.
    const EMPTY_GLYPHS: [char; 5] = [
        '\u{2800}',
        '\u{16FE4}',
        '\u{13441}',
        '\u{13442}',
        '\u{1D159}',
    ];
    if c.is_ascii() {
        return !c.is_ascii_graphic();
    }
    c.is_whitespace()
        || c.is_control()
        || EMPTY_GLYPHS.contains(&c)
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
        || CodePointMapData::<GeneralCategory>::new().get(c) == GeneralCategory::Format
}

/// Whether a text contains a visible character.
pub fn shows(text: &str) -> bool {
    !text.chars().all(is_blank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_shows_by_one_character_that_leaves_a_mark() {
        for seen in [
            "a",
            "\u{200B}-",
            " é ",
            "日本",
            "\u{1F600}",
            "\u{301}",
            "\u{FE0F}1",
        ] {
            assert!(shows(seen), "{seen:?}");
        }
        let blank = "\t \u{A0}\u{AD}\u{34F}\u{61C}\u{115F}\u{1160}\u{17B4}\u{180B}\u{180E}\u{2003}\
                     \u{200B}\u{200D}\u{2028}\u{202E}\u{2060}\u{2061}\u{2066}\u{2800}\u{3000}\u{3164}\
                     \u{FE0F}\u{FEFF}\u{FFA0}\u{FFF9}\u{16FE4}\u{1D159}\u{1D173}\u{E0001}\u{E0100}";
        assert!(!shows("") && !shows(blank));
        for c in blank.chars() {
            assert!(is_blank(c), "{:X}", u32::from(c));
        }
    }
}
