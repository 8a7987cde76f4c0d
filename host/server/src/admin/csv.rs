//! Lines of CSV as RFC 4180 has them.

/// Adds a line.
pub(super) fn line<'a>(text: &mut String, fields: impl IntoIterator<Item = &'a str>) {
    let mut separator = "";
    for field in fields {
        text.push_str(separator);
        separator = ",";
        if field.contains(['"', ',', '\r', '\n']) {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(field);
        }
    }
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
