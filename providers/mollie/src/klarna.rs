//! Data about the payer and the order that Klarna requires.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{Attempt, Question, QuestionKind};

use crate::wire::Problem;
use crate::{wire, words};

/// Countries in which Klarna serves payers through Mollie: currency, code, English name.
const COUNTRIES: [(&str, &str, &str); 21] = [
    ("EUR", "AT", "Austria"),
    ("EUR", "BE", "Belgium"),
    ("EUR", "FI", "Finland"),
    ("EUR", "FR", "France"),
    ("EUR", "DE", "Germany"),
    ("EUR", "GR", "Greece"),
    ("EUR", "IE", "Ireland"),
    ("EUR", "IT", "Italy"),
    ("EUR", "NL", "Netherlands"),
    ("EUR", "PT", "Portugal"),
    ("EUR", "SK", "Slovakia"),
    ("EUR", "ES", "Spain"),
    ("CHF", "CH", "Switzerland"),
    ("CZK", "CZ", "Czechia"),
    ("DKK", "DK", "Denmark"),
    ("GBP", "GB", "United Kingdom"),
    ("HUF", "HU", "Hungary"),
    ("NOK", "NO", "Norway"),
    ("PLN", "PL", "Poland"),
    ("RON", "RO", "Romania"),
    ("SEK", "SE", "Sweden"),
];

/// One field of the billing address: Mollie's name, and the question for it.
struct Detail {
    field: &'static str,
    name: &'static str,
    label: &'static str,
    kind: QuestionKind,
}

const COUNTRY: &str = "country";

/// The fields that "Create payment" requires for Klarna.
const DETAILS: [Detail; 7] = [
    Detail {
        field: "email",
        name: "email",
        label: "E-mail address",
        kind: QuestionKind::Email,
    },
    Detail {
        field: "givenName",
        name: "given-name",
        label: "First name",
        kind: QuestionKind::GivenName,
    },
    Detail {
        field: "familyName",
        name: "family-name",
        label: "Last name",
        kind: QuestionKind::FamilyName,
    },
    Detail {
        field: "streetAndNumber",
        name: "street",
        label: "Street and number",
        kind: QuestionKind::Text,
    },
    Detail {
        field: "postalCode",
        name: "postal-code",
        label: "Postal code",
        kind: QuestionKind::Text,
    },
    Detail {
        field: "city",
        name: "city",
        label: "City",
        kind: QuestionKind::Text,
    },
    Detail {
        field: COUNTRY,
        name: COUNTRY,
        label: "Country",
        kind: QuestionKind::Choice,
    },
];

/// The billing address, or the questions to ask first.
pub(crate) fn address(attempt: &Attempt) -> Result<Json, Vec<Question>> {
    let missing: Vec<Question> = DETAILS
        .iter()
        .filter(|detail| known(attempt, detail).is_none())
        .map(|detail| question(detail, attempt))
        .collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let field = |detail: &Detail| Some((detail.field.to_owned(), known(attempt, detail)?.into()));
    Ok(Json::Object(DETAILS.iter().filter_map(field).collect()))
}

/// The question whose answer Mollie refuses. `None` if the refusal is about another field.
pub(crate) fn refused(attempt: &Attempt, problem: &Problem) -> Option<Question> {
    let field = problem.field.strip_prefix("billingAddress.")?;
    let mut details = DETAILS.iter().filter(|detail| detail.field == field);
    let detail = details.next().filter(|_| problem.status == 422)?;
    Some(question(detail, attempt))
}

/// The order as the only line, which Klarna shows to the payer.
pub(crate) fn lines(attempt: &Attempt) -> Json {
    vec![object([
        ("description", attempt.merchant_order.as_str().into()),
        ("quantity", 1_u64.into()),
        ("unitPrice", wire::money_json(&attempt.due)),
        ("totalAmount", wire::money_json(&attempt.due)),
    ])]
    .into()
}

/// The known value of a detail. The payer's answers take precedence; a currency's only country is the default.
fn known<'a>(attempt: &'a Attempt, detail: &Detail) -> Option<&'a str> {
    let answer = attempt
        .answers
        .iter()
        .find(|(name, _)| name == detail.name)
        .map(|(_, answer)| answer.trim())
        .filter(|answer| !answer.is_empty());
    let payer = &attempt.payer;
    match detail.field {
        COUNTRY => {
            let served = |country: &&str| choices(&attempt.due.currency).any(|c| c.1 == *country);
            let only = || {
                let mut served = choices(&attempt.due.currency);
                served.next().filter(|_| served.next().is_none())
            };
            answer
                .or(payer.country.as_deref())
                .filter(served)
                .or_else(|| only().map(|country| country.1))
        }
        "email" => answer.or(payer.email.as_deref()),
        _ => answer,
    }
}

fn choices(
    currency: &str,
) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str)> {
    COUNTRIES
        .iter()
        .filter(move |(paid_in, _, _)| *paid_in == currency)
}

/// A question in the language of the page.
fn question(detail: &Detail, attempt: &Attempt) -> Question {
    let language = attempt.payer.language.as_deref();
    Question {
        name: detail.name.into(),
        label: words::label(language, detail.label).into(),
        kind: detail.kind,
        required: true,
        choices: match detail.kind {
            QuestionKind::Choice => named(&attempt.due.currency, language),
            _ => Vec::new(),
        },
    }
}

/// The countries of a currency with their names. Only the euro has several, so only its names are translated.
fn named(currency: &str, language: Option<&str>) -> Vec<(String, String)> {
    let owned = |(code, name): (&str, &str)| (code.to_owned(), name.to_owned());
    match words::euro(language).filter(|_| currency == "EUR") {
        Some(countries) => countries.iter().copied().map(owned).collect(),
        None => choices(currency)
            .map(|each| owned((each.1, each.2)))
            .collect(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::method::Method;
    use crate::start::tests::attempt;

    /// Answers to all questions.
    pub(crate) fn answers() -> Vec<(String, String)> {
        [
            ("email", "ada@shop.example"),
            ("given-name", "Ada"),
            ("family-name", "Lovelace"),
            ("street", "Keizersgracht 126"),
            ("postal-code", "1015 CW"),
            ("city", "Amsterdam"),
            ("country", "NL"),
        ]
        .map(|(name, answer)| (name.to_owned(), answer.to_owned()))
        .to_vec()
    }

    #[test]
    fn what_is_not_known_is_asked() {
        let mut attempt = attempt("klarna");
        attempt.answers = Vec::new();
        attempt.payer.country = Some("NL".into());
        let asked: Vec<String> = address(&attempt)
            .unwrap_err()
            .into_iter()
            .map(|question| question.name)
            .collect();
        // The merchant has provided the e-mail address.
        assert_eq!(
            asked,
            ["given-name", "family-name", "street", "postal-code", "city"]
        );
    }

    #[test]
    fn a_country_is_asked_only_where_the_currency_leaves_a_choice() {
        let mut attempt = attempt("klarna");
        attempt.payer.country = Some("US".into());
        attempt.payer.language = None;
        let asked = address(&attempt).unwrap_err();
        let country = asked.iter().find(|question| question.name == "country");
        let choices = &country.unwrap().choices;
        assert!(choices.contains(&("NL".into(), "Netherlands".into())));
        assert!(choices.iter().all(|(code, _)| code != "SE"));
        attempt.due.currency = "SEK".into();
        assert!(
            address(&attempt)
                .unwrap_err()
                .iter()
                .all(|question| question.name != "country")
        );
    }

    #[test]
    fn questions_are_asked_in_the_language_of_the_page() {
        let mut attempt = attempt("klarna");
        attempt.answers = Vec::new();
        attempt.payer.country = None;
        attempt.payer.language = Some("de-AT".into());
        let asked = address(&attempt).unwrap_err();
        let labels: Vec<_> = asked
            .iter()
            .map(|question| question.label.as_str())
            .collect();
        assert_eq!(
            labels[2..],
            ["Straße und Hausnummer", "Postleitzahl", "Ort", "Land"]
        );
        let codes = |asked: &[Question]| {
            let country = asked.iter().find(|question| question.name == COUNTRY);
            let mut codes: Vec<String> = country
                .unwrap()
                .choices
                .iter()
                .map(|(code, _)| code.clone())
                .collect();
            codes.sort();
            codes
        };
        let country = asked.last().unwrap();
        assert_eq!(country.choices[8], ("AT".into(), "Österreich".into()));
        // The same countries in every language.
        attempt.payer.language = Some("ja".into());
        let english = address(&attempt).unwrap_err();
        assert_eq!(english.last().unwrap().label, "Country");
        assert_eq!(codes(&asked), codes(&english));
    }

    #[test]
    fn answers_become_the_billing_address() {
        let mut attempt = attempt("klarna");
        attempt.answers = answers();
        let address = address(&attempt).unwrap();
        for (field, value) in [
            ("email", "ada@shop.example"),
            ("givenName", "Ada"),
            ("familyName", "Lovelace"),
            ("streetAndNumber", "Keizersgracht 126"),
            ("postalCode", "1015 CW"),
            ("city", "Amsterdam"),
            ("country", "NL"),
        ] {
            assert_eq!(
                address.get(field).and_then(Json::text),
                Some(value),
                "{field}"
            );
        }
        attempt.answers.push(("country".into(), "XX".into()));
        attempt.answers.retain(|(_, answer)| answer != "NL");
        assert!(super::address(&attempt).is_err());
    }

    #[test]
    fn every_currency_of_klarna_has_a_country() {
        for currency in Method::Klarna.currencies() {
            assert!(choices(currency).next().is_some(), "{currency}");
        }
    }
}
