//! CSV lines (RFC 4180) that are safe to open: a spreadsheet evaluates no formula in foreign text, and no text
//! reverses the display order.

use std::borrow::Cow;

use kassette_domain::text::is_bidi_control;

/// Appends a line.
pub(super) fn line<'a>(text: &mut String, fields: impl IntoIterator<Item = &'a str>) {
    let mut separator = "";
    for field in fields {
        text.push_str(separator);
        separator = ",";
        let field = harmless(field);
        if field.contains(['"', ',', '\r', '\n']) {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(&field);
        }
    }
    text.push_str("\r\n");
}

/// Prefixes a text that a spreadsheet would evaluate as a formula with an apostrophe, except amounts. Replaces
/// characters that change the text direction.
fn harmless(field: &str) -> Cow<'_, str> {
    let digits = field.strip_prefix('-').unwrap_or(field);
    let is_amount = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_amount;
    if !is_formula && !field.contains(is_bidi_control) {
        return field.into();
    }
    let apostrophe = if is_formula { "'" } else { "" };
    format!("{apostrophe}{}", field.replace(is_bidi_control, "\u{fffd}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_a_spreadsheet_would_run_are_neutralized() {
        let mut text = String::new();
        let fields = ["=1+1", "@SUM(A1)", "+1", "-2.50", "-x", "a=b", "=a,b", "--"];
        line(&mut text, fields);
        assert_eq!(text, "'=1+1,'@SUM(A1),'+1,-2.50,'-x,a=b,\"'=a,b\",'--\r\n");
    }

    #[test]
    fn fields_that_would_break_a_line_are_quoted() {
        let mut text = String::new();
        line(
            &mut text,
            ["plain", "", " a;b ", "1,5", "say \"hi\"", "a\r\nb"],
        );
        line(&mut text, ["next"]);
        let expected = "plain,, a;b ,\"1,5\",\"say \"\"hi\"\"\",\"a\r\nb\"\r\nnext\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn texts_of_strangers_are_neither_formulas_nor_reordered() {
        let mut text = String::new();
        line(
            &mut text,
            [
                "=1+1",
                "@cmd",
                "-x",
                "-1.00",
                "+5",
                "-inf",
                "a\u{202e}b",
                "a=b",
            ],
        );
        assert_eq!(text, "'=1+1,'@cmd,'-x,-1.00,'+5,'-inf,a\u{fffd}b,a=b\r\n");
    }
}
