//! Small JSON reader and writer for providers' formats.
//!
//! Numbers are kept as written, so that money never becomes a floating-point number. The reader accepts numbers
//! and flags as text, a name two times in an object, and half of a UTF-16 pair at the cut of a text, because
//! providers write all of these. Of a repeated name the last value counts, as in the parsers that providers test
//! with.
//!
//! ```
//! use kassette_plugin::json::{Json, object};
//!
//! let body = object([
//!     ("amount", object([("value", "49.90".into()), ("currency", "EUR".into())])),
//!     ("methods", vec![Json::from("ideal")].into()),
//!     ("capture", false.into()),
//! ]);
//! assert_eq!(
//!     body.to_string(),
//!     r#"{"amount":{"value":"49.90","currency":"EUR"},"methods":["ideal"],"capture":false}"#
//! );
//!
//! let answer = Json::parse(br#"{"id": "tr_1", "charges": [{"amount": 4990}]}"#);
//! let charge = answer.as_ref().and_then(|answer| answer.get("charges")?.items().first());
//! assert_eq!(charge.and_then(|charge| charge.get("amount")?.whole()), Some(4990));
//! ```
use std::fmt::{self, Write as _};

/// Maximum nesting depth of lists and objects. Providers use a few levels, and each one takes some of a module's
/// small stack.
const DEEPEST: u32 = 32;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as written.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object, with fields in their order.
    Object(Vec<(String, Json)>),
}

/// Creates an object with these fields, in this order. A repeated name is kept; [`Json::get`] returns its first
/// value.
#[must_use]
pub fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    let named = |(name, value): (&str, Json)| (name.to_owned(), value);
    Json::Object(fields.into_iter().map(named).collect())
}

impl Json {
    /// Parses a complete text. `None` if it is not JSON (RFC 8259), or is nested more than 32 levels deep. Of a
    /// repeated name in an object the last value counts.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(DEEPEST)?;
        reader.space();
        (reader.at == text.len()).then_some(value)
    }

    /// Returns a field of an object. `None` if it is absent, or the value is not an object.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.iter().find(|(key, _)| key == name).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Returns the value at a path of field names in nested objects.
    #[must_use]
    pub fn path(&self, names: &[&str]) -> Option<&Self> {
        names.iter().try_fold(self, |value, name| value.get(name))
    }

    /// The items of a list. Empty for other values.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The content of a string. `None` for other values.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number as written, such as `49.90`. `None` for other values.
    #[must_use]
    pub fn number(&self) -> Option<&str> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// A non-negative whole number without fraction or exponent, as a number or as text. `None` for other values,
    /// and above `u64::MAX`.
    #[must_use]
    pub fn whole(&self) -> Option<u64> {
        let digits = self.number().or_else(|| self.text())?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| plain)
    }

    /// `true` or `false`, also as text. `None` for other values.
    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            Self::Text(flag) => flag.parse().ok(),
            _ => None,
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Self {
        Self::Number(number.to_string())
    }
}

impl From<bool> for Json {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<Vec<Self>> for Json {
    fn from(items: Vec<Self>) -> Self {
        Self::List(items)
    }
}

impl<T: Into<Self>> From<Option<T>> for Json {
    /// `None` becomes `null`.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Writes the value without spaces.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(true) => f.write_str("true"),
            Self::Bool(false) => f.write_str("false"),
            Self::Number(number) => f.write_str(number),
            Self::Text(text) => quote(text, f),
            Self::List(items) => {
                f.write_char('[')?;
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        f.write_char(',')?;
                    }
                    item.fmt(f)?;
                }
                f.write_char(']')
            }
            Self::Object(fields) => {
                f.write_char('{')?;
                for (place, (name, value)) in fields.iter().enumerate() {
                    if place > 0 {
                        f.write_char(',')?;
                    }
                    quote(name, f)?;
                    f.write_char(':')?;
                    value.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        let (plain, special) = rest.split_at(at);
        f.write_str(plain)?;
        let byte = special.as_bytes().first().copied().unwrap_or_default();
        match byte {
            b'"' | b'\\' => {
                f.write_char('\\')?;
                f.write_char(char::from(byte))?;
            }
            b'\n' => f.write_str("\\n")?,
            b'\r' => f.write_str("\\r")?,
            b'\t' => f.write_str("\\t")?,
            _ => write!(f, "\\u{byte:04x}")?,
        }
        rest = special.get(1..).unwrap_or_default();
    }
    f.write_str(rest)?;
    f.write_char('"')
}

/// A text and the position of the next byte to read.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Consumes a byte if it is the next one. Returns whether it was.
    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// Consumes a literal and returns `value`. `None` if another text follows.
    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        let there = self.text.get(self.at..)?.starts_with(word);
        self.at += word.len();
        there.then_some(value)
    }

    fn value(&mut self, deeper: u32) -> Option<Json> {
        self.space();
        match self.peek()? {
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'"' => self.string().map(Json::Text),
            b'[' => self.list(deeper.checked_sub(1)?),
            b'{' => self.fields(deeper.checked_sub(1)?),
            _ => self.number(),
        }
    }

    fn list(&mut self, deeper: u32) -> Option<Json> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take(b']') {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value(deeper)?);
            self.space();
            if self.take(b']') {
                return Some(Json::List(items));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn fields(&mut self, deeper: u32) -> Option<Json> {
        self.at += 1;
        let mut fields: Vec<(String, Json)> = Vec::new();
        self.space();
        if self.take(b'}') {
            return Some(Json::Object(fields));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.space();
            if !self.take(b':') {
                return None;
            }
            let value = self.value(deeper)?;
            match fields.iter_mut().find(|(key, _)| *key == name) {
                Some((_, earlier)) => *earlier = value,
                None => fields.push((name, value)),
            }
            self.space();
            if self.take(b'}') {
                return Some(Json::Object(fields));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn number(&mut self) -> Option<Json> {
        let from = self.at;
        self.take(b'-');
        // A leading zero must be the only digit.
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _signed = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Some(Json::Number(self.text.get(from..self.at)?.to_owned()))
    }

    fn string(&mut self) -> Option<String> {
        if !self.take(b'"') {
            return None;
        }
        let mut string = String::new();
        loop {
            let from = self.at;
            while !matches!(self.peek()?, b'"' | b'\\' | 0..=0x1f) {
                self.at += 1;
            }
            string.push_str(self.text.get(from..self.at)?);
            if self.take(b'"') {
                return Some(string);
            }
            if !self.take(b'\\') {
                return None;
            }
            string.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Option<char> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return None,
        })
    }

    /// Parses one UTF-16 unit after `\u`, or a surrogate pair. An unpaired surrogate, as left by cutting a text,
    /// becomes the replacement character.
    fn code_point(&mut self) -> Option<char> {
        let first = self.unit()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after_first = self.at;
        if self.take(b'\\') && self.take(b'u') {
            let second = self.unit()?;
            if let Some(low) = second.checked_sub(0xdc00).filter(|low| *low < 0x400) {
                return char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + low);
            }
        }
        self.at = after_first;
        Some(char::REPLACEMENT_CHARACTER)
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then(|| u32::from_str_radix(digits, 16).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> Option<String> {
        Json::parse(text.as_bytes()).map(|json| json.to_string())
    }

    #[test]
    fn what_is_read_is_written_again_without_spaces() {
        for (text, expected) in [
            (" null ", "null"),
            ("[ ]", "[]"),
            ("{ }", "{}"),
            ("[true, false,null]", "[true,false,null]"),
            (
                "{ \"b\" : [ { } , 1 ] ,\n\t\"a\":\"x\" }",
                "{\"b\":[{},1],\"a\":\"x\"}",
            ),
            ("-0.50e+10", "-0.50e+10"),
            ("49.90", "49.90"),
            ("18446744073709551616", "18446744073709551616"),
        ] {
            assert_eq!(again(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn strings_are_read_and_written_with_their_escapes() {
        let text = r#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é""#;
        let read = Json::parse(text.as_bytes()).unwrap();
        assert_eq!(read.text(), Some("\"\\/\u{8}\u{c}\n\r\té😀é"));
        assert_eq!(read.to_string(), "\"\\\"\\\\/\\u0008\\u000c\\n\\r\\té😀é\"");
        assert_eq!(Json::parse(read.to_string().as_bytes()), Some(read));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "nul",
            "nulll",
            "tru",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":1 \"b\":2}",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "1e+",
            "0x1",
            "NaN",
            "\"",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u+123\"",
            "1 2",
            "{} x",
            "'a'",
            "[",
            "{",
            "{\"a\":",
            "// x\n1",
        ] {
            assert_eq!(again(text), None, "{text}");
        }
        assert_eq!(Json::parse(b"\"\xff\""), None);
    }

    #[test]
    fn of_a_name_that_stands_twice_the_last_value_counts() {
        let text = r#"{"amount":1,"note":0,"amount":{"amount":2}}"#;
        assert_eq!(
            again(text).as_deref(),
            Some(r#"{"amount":{"amount":2},"note":0}"#)
        );
    }

    #[test]
    fn half_of_a_character_is_replaced() {
        for (text, expected) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ud83dx""#, "\u{fffd}x"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\udc00""#, "\u{fffd}"),
        ] {
            let read = Json::parse(text.as_bytes());
            assert_eq!(read.as_ref().and_then(Json::text), Some(expected), "{text}");
        }
    }

    #[test]
    fn numbers_and_flags_may_be_text() {
        let text = |text: &str| Json::from(text);
        assert_eq!(text("4990").whole(), Some(4990));
        for odd in ["", "+1", "-1", " 1", "1.0", "x", "18446744073709551616"] {
            assert_eq!(text(odd).whole(), None, "{odd}");
        }
        assert_eq!(text("true").flag(), Some(true));
        assert_eq!((text("yes").flag(), text("").flag()), (None, None));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(again(&nested(32)).is_some());
        assert_eq!(again(&nested(33)), None);
        assert_eq!(again(&nested(100_000)), None);
    }

    #[test]
    fn values_are_what_they_are_and_nothing_else() {
        let json = Json::parse(
            br#"{"n":4990,"d":49.90,"m":-1,"t":"4990","f":true,"l":[1],"o":{"i":{"x":"y"}}}"#,
        )
        .unwrap();
        let field = |name| json.get(name).unwrap();
        assert_eq!(field("n").whole(), Some(4990));
        assert_eq!(
            (field("d").whole(), field("d").number()),
            (None, Some("49.90"))
        );
        assert_eq!((field("m").whole(), field("l").whole()), (None, None));
        assert_eq!(field("t").text(), Some("4990"));
        assert_eq!((field("f").flag(), field("n").flag()), (Some(true), None));
        assert_eq!((field("l").items().len(), field("o").items().len()), (1, 0));
        let deep = json.path(&["o", "i", "x"]);
        assert_eq!(deep.and_then(Json::text), Some("y"));
        assert_eq!((json.get("none"), json.path(&["n", "x"])), (None, None));
    }

    #[test]
    fn what_is_written_says_what_was_meant() {
        let none: Option<&str> = None;
        let json = object([
            ("none", none.into()),
            ("some", Some(7_u64).into()),
            ("text", String::from("a\"b").into()),
        ]);
        assert_eq!(json.to_string(), r#"{"none":null,"some":7,"text":"a\"b"}"#);
    }
}
