//! Values of the admin API as the templates read them: a field, a list, and the formats of texts, money and times.
//!
//! The pages show what the functions of the admin API return, so that a page and a call cannot differ.

use std::borrow::Cow;
use std::fmt;

use askama::filters::HtmlSafe;
use kassette_domain::text::steers;
use kassette_domain::time::Time;
use serde_json::Value;

/// A value with the time at which the page is rendered.
#[derive(Clone, Copy, Debug)]
pub(in crate::console) struct Node<'a> {
    value: &'a Value,
    now: Time,
}

static NULL: Value = Value::Null;

impl<'a> Node<'a> {
    pub(in crate::console) const fn new(value: &'a Value, now: Time) -> Self {
        Self { value, now }
    }

    /// A field of an object. Null for a null. In debug builds, a name that the object lacks is an error, because
    /// the API's objects have all their fields.
    pub(in crate::console) fn at(&self, name: &str) -> Node<'a> {
        let field = self.value.get(name);
        debug_assert!(
            field.is_some() || self.value.is_null(),
            "no field {name} in {}",
            self.value
        );
        Node::new(field.unwrap_or(&NULL), self.now)
    }

    /// Whether an object has a field that only some have.
    pub(in crate::console) fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some()
    }

    /// The items of a list; empty for anything else.
    pub(in crate::console) fn list(&self) -> Vec<Node<'a>> {
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice);
        items.iter().map(|item| Node::new(item, self.now)).collect()
    }

    /// Names and values of an object.
    pub(in crate::console) fn fields(&self) -> Vec<(Cow<'a, str>, Node<'a>)> {
        let object = self.value.as_object();
        let fields = object.into_iter().flatten();
        let fields = fields.map(|(name, value)| (neutral(name), Node::new(value, self.now)));
        fields.collect()
    }

    /// Whether there is a value: neither null, nor an empty text or list.
    pub(in crate::console) fn is_set(&self) -> bool {
        match self.value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        }
    }

    /// Whether it is this text.
    pub(in crate::console) fn is(&self, text: &str) -> bool {
        self.value.as_str() == Some(text)
    }

    /// Whether it is `true`.
    pub(in crate::console) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// The original text, for comparisons and addresses. Empty for anything else.
    pub(in crate::console) fn raw(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(in crate::console) fn number(&self) -> u64 {
        self.value.as_u64().unwrap_or_default()
    }

    /// A number with commas for thousands.
    pub(in crate::console) fn count(&self) -> String {
        count(self.number())
    }

    /// Share of one field in another: `87.9 %`. Empty if the other is zero.
    pub(in crate::console) fn share(&self, part: &str, whole: &str) -> String {
        percent(self.at(part).number(), self.at(whole).number())
    }

    /// The same in tenths of a percent.
    pub(in crate::console) fn tenths(&self, part: &str, whole: &str) -> Option<u64> {
        tenths(self.at(part).number(), self.at(whole).number())
    }

    /// A number that may have decimals, such as a rate. Never an amount of money.
    pub(in crate::console) fn fraction(&self) -> f64 {
        self.value.as_f64().unwrap_or_default()
    }

    /// A word of the API as the beginning of a sentence: `Verification pending`.
    pub(in crate::console) fn word(&self) -> String {
        sentence(self.raw())
    }

    /// An amount with the currency that another value names.
    pub(in crate::console) fn money(&self, currency: &Node<'_>) -> Markup {
        money(self.raw(), currency.raw())
    }

    /// An amount without currency, for columns of one currency.
    pub(in crate::console) fn amount(&self) -> String {
        grouped(self.raw())
    }

    /// An id of which the page shows the beginning.
    pub(in crate::console) fn id(&self) -> Markup {
        code("id", self.raw())
    }

    pub(in crate::console) fn digest(&self) -> Markup {
        code("id digest", self.raw())
    }

    pub(in crate::console) fn whole_id(&self) -> Markup {
        code("id whole", self.raw())
    }

    /// A time as its distance from now: `6 h ago`, `in 7 days`.
    pub(in crate::console) fn age(&self) -> Markup {
        self.when(|time| distance(self.now, time))
    }

    /// Time at which something is to happen; `now` if it has passed.
    pub(in crate::console) fn due(&self) -> Markup {
        self.when(|time| match time <= self.now {
            true => "now".to_owned(),
            false => distance(self.now, time),
        })
    }

    /// A time as its distance from now, without direction: `6 h`.
    pub(in crate::console) fn span(&self) -> Markup {
        self.when(|time| length(self.now, time))
    }

    /// A time of day, with the date unless it is today's.
    pub(in crate::console) fn moment(&self) -> Markup {
        let text = self.raw();
        let today = self.now.rfc3339();
        let is_today = text.get(..10) == today.get(..10);
        self.when(|_| match is_today {
            true => text.get(11..16).unwrap_or_default().to_owned(),
            false => format!(
                "{} {}",
                short_day(text),
                text.get(11..16).unwrap_or_default()
            ),
        })
    }

    /// A time of day with seconds, for timelines.
    pub(in crate::console) fn second(&self) -> Markup {
        let text = self.raw();
        self.when(|_| text.get(11..19).unwrap_or_default().to_owned())
    }

    fn when(&self, shown: impl FnOnce(Time) -> String) -> Markup {
        let text = self.raw();
        match Time::parse_rfc3339(text) {
            None => Markup::text(text),
            Some(time) => Markup(format!(
                "<time datetime=\"{text}\" title=\"{} {} UTC\">{}</time>",
                text.get(..10).unwrap_or_default(),
                text.get(11..19).unwrap_or_default(),
                shown(time)
            )),
        }
    }
}

impl fmt::Display for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Null => Ok(()),
            Value::String(text) => f.write_str(&neutral(text)),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{}", Node::new(item, self.now))?;
                }
                Ok(())
            }
            other => f.write_str(&neutral(&other.to_string())),
        }
    }
}

/// HTML that this program wrote; texts in it are escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::console) struct Markup(String);

impl HtmlSafe for Markup {}

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Markup {
    /// A foreign text.
    pub(in crate::console) fn text(text: &str) -> Self {
        let mut html = String::with_capacity(text.len());
        for c in neutral(text).chars() {
            match c {
                '&' => html.push_str("&amp;"),
                '<' => html.push_str("&lt;"),
                '>' => html.push_str("&gt;"),
                '"' => html.push_str("&quot;"),
                '\'' => html.push_str("&#x27;"),
                c => html.push(c),
            }
        }
        Self(html)
    }

    /// A state: shape, color and word. `class` is one of the style sheet's.
    pub(in crate::console) fn state(class: &str, word: &str) -> Self {
        Self(format!(
            "<span class=\"state {class}\">{}</span>",
            Self::text(word)
        ))
    }
}

/// Replaces characters that control a terminal or the direction of the text around them.
pub(in crate::console) fn neutral(text: &str) -> Cow<'_, str> {
    match text.contains(steers) {
        true => text.replace(steers, "\u{fffd}").into(),
        false => text.into(),
    }
}

fn code(class: &str, text: &str) -> Markup {
    match text.is_empty() {
        true => Markup(String::new()),
        false => Markup(format!(
            "<code class=\"{class}\">{}</code>",
            Markup::text(text)
        )),
    }
}

/// A text as one segment of a call's path.
pub(in crate::console) fn segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A word of the API as the beginning of a sentence.
pub(in crate::console) fn sentence(word: &str) -> String {
    let text = neutral(word).replace('_', " ");
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => text,
    }
}

/// An amount with its currency. Empty without an amount.
pub(in crate::console) fn money(amount: &str, currency: &str) -> Markup {
    match amount.is_empty() {
        true => Markup(String::new()),
        false => Markup(format!(
            "<span class=\"money\">{} <span>{}</span></span>",
            Markup::text(&grouped(amount)),
            Markup::text(currency)
        )),
    }
}

/// An amount with commas for thousands and a true minus.
pub(in crate::console) fn grouped(amount: &str) -> String {
    let (sign, digits) = match amount.split_at_checked(1) {
        Some(("-", digits)) => ("\u{2212}", digits),
        Some(("+", digits)) => ("+", digits),
        _ => ("", amount),
    };
    let (whole, cents) = digits.split_once('.').unwrap_or((digits, ""));
    let mut text = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !cents.is_empty() {
        text.push('.');
        text.push_str(cents);
    }
    text
}

/// A count with commas for thousands.
pub(in crate::console) fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// A share with one decimal: `87.9 %`. Empty without a whole.
pub(in crate::console) fn percent(part: u64, whole: u64) -> String {
    match tenths(part, whole) {
        Some(tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
        None => String::new(),
    }
}

/// A share in tenths of a percent, rounded. `None` without a whole.
pub(in crate::console) fn tenths(part: u64, whole: u64) -> Option<u64> {
    let twice = part.saturating_mul(2000).saturating_add(whole);
    twice.checked_div(whole.saturating_mul(2))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Day and month of an RFC 3339 time.
fn day_and_month(text: &str) -> Option<(u8, &'static str)> {
    let day = text.get(8..10)?.parse().ok()?;
    let month: usize = text.get(5..7)?.parse().ok()?;
    Some((day, MONTHS.get(month.checked_sub(1)?)?))
}

/// `3 Dec`
pub(in crate::console) fn short_day(text: &str) -> String {
    match day_and_month(text) {
        Some((day, month)) => format!("{day} {}", month.get(..3).unwrap_or_default()),
        None => String::new(),
    }
}

/// `3 December 2026`
pub(in crate::console) fn long_day(text: &str) -> String {
    match day_and_month(text) {
        Some((day, month)) => format!("{day} {month} {}", text.get(..4).unwrap_or_default()),
        None => neutral(text).into_owned(),
    }
}

fn distance(now: Time, time: Time) -> String {
    let text = length(now, time);
    match (text.as_str(), time > now) {
        ("now", _) => text,
        (_, true) => format!("in {text}"),
        (_, false) => format!("{text} ago"),
    }
}

/// Length of the time between two times, in one unit.
fn length(one: Time, other: Time) -> String {
    let seconds = one.since(other).max(other.since(one)).as_secs();
    match seconds {
        0 => "now".to_owned(),
        1..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// An address with only the first letter of its mailbox: `b…@post.example`.
pub(in crate::console) fn masked(email: &str) -> String {
    let (mailbox, host) = email.rsplit_once('@').unwrap_or((email, ""));
    let first: String = mailbox.chars().take(1).collect();
    neutral(&format!("{first}…@{host}")).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn money_has_groups_a_true_minus_and_its_currency() {
        for (amount, shown) in [
            ("0.00", "0.00"),
            ("999.99", "999.99"),
            ("1284.00", "1,284.00"),
            ("-64.20", "\u{2212}64.20"),
            ("-9999999999.99", "\u{2212}9,999,999,999.99"),
        ] {
            assert_eq!(grouped(amount), shown);
        }
        let shown = money("1284.00", "EUR").to_string();
        assert_eq!(
            shown,
            "<span class=\"money\">1,284.00 <span>EUR</span></span>"
        );
        assert_eq!(money("", "").to_string(), "");
    }

    #[test]
    fn foreign_texts_can_neither_add_markup_nor_change_the_direction_of_text() {
        let value = json!("<b>\u{202e}\u{1b}[2J\"'&");
        let node = Node::new(&value, Time::default());
        assert_eq!(node.to_string(), "<b>\u{fffd}\u{fffd}[2J\"'&");
        let expected = "<code class=\"id\">&lt;b&gt;\u{fffd}\u{fffd}[2J&quot;&#x27;&amp;</code>";
        assert_eq!(node.id().to_string(), expected);
        assert_eq!(
            node.age().to_string(),
            "&lt;b&gt;\u{fffd}\u{fffd}[2J&quot;&#x27;&amp;"
        );
    }

    #[test]
    fn a_time_is_shown_with_its_distance_and_whole_in_the_markup() {
        let at = |text: &str, now: &str| {
            let value = json!(text);
            let now = Time::parse_rfc3339(now).unwrap();
            let node = Node::new(&value, now);
            [node.age(), node.moment(), node.span()].map(|html| html.to_string())
        };
        let [age, moment, span] = at("2026-12-01T09:14:02.000Z", "2026-12-03T14:26:08.000Z");
        let begin =
            "<time datetime=\"2026-12-01T09:14:02.000Z\" title=\"2026-12-01 09:14:02 UTC\">";
        assert_eq!(age, format!("{begin}2 days ago</time>"));
        assert_eq!(moment, format!("{begin}1 Dec 09:14</time>"));
        assert_eq!(span, format!("{begin}2 days</time>"));
        let [age, moment, _] = at("2026-12-03T14:27:08.000Z", "2026-12-03T14:26:08.000Z");
        assert!(
            age.contains(">in 60 s<") && moment.contains(">14:27<"),
            "{age}{moment}"
        );
    }

    #[test]
    fn shares_are_rounded_to_a_tenth_of_a_percent() {
        assert_eq!(percent(2083, 2371), "87.9 %");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(2, 3), "66.7 %");
        assert_eq!(percent(5, 5), "100.0 %");
        assert_eq!(percent(0, 0), "");
    }

    #[test]
    fn of_an_address_only_the_first_letter_and_the_host_are_shown() {
        assert_eq!(masked("buyer-20418@post.example"), "b…@post.example");
        assert_eq!(masked("\"a@b\"@post.example"), "\"…@post.example");
    }
}
