//! A module's questions as a form, and the answers of the payer.

use kassette_domain::order::Email;
use kassette_domain::provider::{Question, QuestionKind};
use kassette_domain::question::is_card_like;
use kassette_domain::secret::Secret;

use super::forms::Form;
use super::templates::Field;
use super::texts::Texts;

/// Maximum length of an answer in characters, for example of a name or an address line.
const MOST_ANSWER: usize = 200;

/// Fields without answers.
pub(crate) fn blank(questions: &[Question], t: Texts) -> Vec<Field> {
    let fields = questions.iter();
    fields
        .map(|question| field(question, "", None, t))
        .collect()
}

/// Returns the answers with their questions' names, or the fields with errors.
///
/// # Errors
/// The form's fields with the payer's input.
pub(crate) fn read(
    questions: &[Question],
    form: &Form,
    t: Texts,
) -> Result<Vec<(String, Secret)>, Vec<Field>> {
    let judged: Vec<_> = questions
        .iter()
        .map(|question| {
            let text = form.get(&question.name).unwrap_or_default().trim();
            (question, text, judge(question, text, t))
        })
        .collect();
    if judged.iter().any(|(_, _, error)| error.is_some()) {
        let fields = judged.into_iter();
        return Err(fields
            .map(|(question, text, error)| field(question, text, error, t))
            .collect());
    }
    Ok(judged
        .into_iter()
        .filter(|(_, text, _)| !text.is_empty())
        .map(|(question, text, _)| (question.name.clone(), Secret::new(text)))
        .collect())
}

/// The error of an answer. `None` if it is valid.
fn judge(question: &Question, text: &str, t: Texts) -> Option<String> {
    if text.is_empty() {
        return question.required.then(|| t.error_required());
    }
    let most = most(question.kind);
    if text.chars().count() > most {
        return Some(t.error_length(&most.to_string()));
    }
    if text.chars().any(char::is_control) {
        return Some(t.error_characters());
    }
    if is_card_like(question.kind, text) {
        return Some(t.error_card());
    }
    match question.kind {
        QuestionKind::Email if Email::parse(text).is_err() => Some(t.error_email()),
        QuestionKind::Phone if !is_phone(text) => Some(t.error_phone()),
        QuestionKind::Choice if !question.choices.iter().any(|(value, _)| value == text) => {
            Some(t.error_choice())
        }
        _ => None,
    }
}

const fn most(kind: QuestionKind) -> usize {
    match kind {
        QuestionKind::Email => Email::MAX,
        QuestionKind::Phone => 32,
        _ => MOST_ANSWER,
    }
}

/// Five to fifteen digits (E.164) with the usual separators.
fn is_phone(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let allowed = |c: char| c.is_ascii_digit() || " +-./()".contains(c);
    (5..=15).contains(&digits) && text.chars().all(allowed)
}

/// Label of a question in the page's language. Modules write theirs in English; every catalogue translates
/// common questions.
fn label(question: &Question, t: Texts) -> String {
    let known = match question.kind {
        QuestionKind::Email => t.question_email(),
        QuestionKind::Phone => t.question_phone(),
        QuestionKind::GivenName => t.question_given_name(),
        QuestionKind::FamilyName => t.question_family_name(),
        QuestionKind::Text | QuestionKind::Choice => return question.label.clone(),
    };
    match t.tag() {
        "en" => question.label.clone(),
        _ => known,
    }
}

fn field(question: &Question, value: &str, error: Option<String>, t: Texts) -> Field {
    let (input, autocomplete) = match question.kind {
        QuestionKind::Email => ("email", "email"),
        QuestionKind::Phone => ("tel", "tel"),
        QuestionKind::GivenName => ("text", "given-name"),
        QuestionKind::FamilyName => ("text", "family-name"),
        QuestionKind::Text | QuestionKind::Choice => ("text", ""),
    };
    Field {
        name: question.name.clone(),
        label: label(question, t),
        input,
        autocomplete,
        required: question.required,
        most: most(question.kind),
        choices: match question.kind {
            QuestionKind::Choice => question.choices.clone(),
            _ => vec![],
        },
        value: value.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kind: QuestionKind, required: bool) -> Question {
        Question {
            name: "x".into(),
            label: "X".into(),
            kind,
            required,
            choices: vec![("nl".into(), "Netherlands".into())],
        }
    }

    fn wrong(kind: QuestionKind, required: bool, text: &str) -> bool {
        let t = Texts::negotiate(&http::HeaderMap::new());
        judge(&question(kind, required), text, t).is_some()
    }

    #[test]
    fn answers_fit_their_questions() {
        use QuestionKind::{Choice, Email, Phone, Text};
        for (kind, text) in [
            (Email, "ada@example.org"),
            (Phone, "+31 (0)20 123-4567"),
            (Choice, "nl"),
            (Text, "Straße 1, 2. OG"),
        ] {
            assert!(!wrong(kind, true, text), "{text}");
        }
        for (kind, text) in [
            (Email, "ada"),
            (Phone, "call me"),
            (Phone, "12"),
            (Choice, "xx"),
            (Text, "a\nb"),
            (Text, ""),
            (Text, "4242 4242 4242 4242"),
        ] {
            assert!(wrong(kind, true, text), "{text}");
        }
        assert!(wrong(Text, true, &"x".repeat(MOST_ANSWER + 1)));
        assert!(!wrong(Email, false, ""), "what is optional may be left out");
    }
}
