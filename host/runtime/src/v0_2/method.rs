//! Converts the interface `routing` to and from the domain.

use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::routing::{
    AccountCandidate, Availability, Context, Ground, MAX_CANDIDATES, MethodDescription, PathData,
    RoutingRefusal, Shape, Translation, Verdict,
};
use wasmtime::component::{ComponentType, Lower};

use super::bindings::method::exports::kassette::plugin::routing as wit;
use super::bounds::{self, DETAIL};
use super::settings;
use crate::error::CallError;

/// Limits of the contract on texts and icons for payers: number of translations, bytes of a note, shapes of an
/// icon, bytes of all shapes.
const TRANSLATIONS: usize = 64;
const NOTE: usize = 160;
const SHAPES: usize = 16;
const ICON: usize = 4 << 10;

pub(crate) type Description = wit::Description;
pub(crate) type Answer = Result<Vec<wit::Verdict>, wit::Refusal>;

/// A question. Unlike the generated record, it borrows its texts, so that they are copied only into the guest.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct LoweredContext<'a> {
    amount: Option<u64>,
    currency: &'a str,
    usd: Option<u64>,
    environment: wit::Environment,
    #[component(name = "email-known")]
    email_known: bool,
    country: Option<&'a str>,
    now: u64,
    settings: &'a [(String, String)],
    candidates: Vec<LoweredCandidate<'a>>,
}

/// A candidate, which borrows its texts.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct LoweredCandidate<'a> {
    id: &'a str,
    minimum: Option<u64>,
    maximum: Option<u64>,
    fee: Option<u64>,
    priority: i32,
    health: wit::Health,
}

/// Converts a question to the guest's types.
pub(crate) fn question(context: &Context) -> LoweredContext<'_> {
    LoweredContext {
        amount: context.amount.map(|amount| amount.0),
        currency: context.currency.code(),
        usd: context.usd.map(|usd| usd.0),
        environment: match context.environment {
            Environment::Test => wit::Environment::Test,
            Environment::Live => wit::Environment::Live,
        },
        email_known: context.email_known,
        country: context.country.as_deref(),
        now: context.now.as_millis(),
        settings: &context.settings,
        candidates: context.candidates.iter().map(candidate).collect(),
    }
}

fn candidate(candidate: &AccountCandidate) -> LoweredCandidate<'_> {
    let health = &candidate.health;
    LoweredCandidate {
        id: candidate.id.as_str(),
        minimum: candidate.minimum.map(|amount| amount.0),
        maximum: candidate.maximum.map(|amount| amount.0),
        fee: candidate.fee.map(|fee| fee.0),
        priority: candidate.priority,
        health: wit::Health {
            status: match health.status {
                Availability::Operational => wit::Availability::Operational,
                Availability::Degraded => wit::Availability::Degraded,
                Availability::Down => wit::Availability::Down,
                Availability::Stale => wit::Availability::Stale,
            },
            success: health.success,
            latency: health.latency,
            samples: health.samples,
        },
    }
}

/// Converts an answer and checks the contract's limits. Rules of routing are checked elsewhere.
pub(crate) fn verdicts(answer: Answer) -> Result<Result<Vec<Verdict>, RoutingRefusal>, CallError> {
    match answer {
        Err(no) => Ok(Err(refusal(no)?)),
        Ok(all) if all.len() > MAX_CANDIDATES => Err(CallError::BadReply("too many verdicts")),
        Ok(all) => all
            .into_iter()
            .map(verdict)
            .collect::<Result<_, _>>()
            .map(Ok),
    }
}

fn verdict(verdict: wit::Verdict) -> Result<Verdict, CallError> {
    let id = AccountId::try_from(verdict.id)
        .map_err(|_| CallError::BadReply("a verdict's id is no candidate's"))?;
    let outcome = match verdict.outcome {
        Ok(reason) => Ok(bounds::within(
            reason,
            DETAIL,
            "a verdict's reason is over 200 bytes",
        )?),
        Err(no) => Err(refusal(no)?),
    };
    Ok(Verdict { id, outcome })
}

fn refusal(refusal: wit::Refusal) -> Result<RoutingRefusal, CallError> {
    let ground = match refusal.ground {
        wit::Ground::Currency => Ground::Currency,
        wit::Ground::Amount => Ground::Amount,
        wit::Ground::Country => Ground::Country,
        wit::Ground::Payer => Ground::Payer,
        wit::Ground::Health => Ground::Health,
        wit::Ground::Policy => Ground::Policy,
        wit::Ground::Other => Ground::Other,
    };
    let detail = bounds::within(
        refusal.detail,
        DETAIL,
        "a refusal's detail is over 200 bytes",
    )?;
    Ok(RoutingRefusal { ground, detail })
}

/// Converts the description without its id, which the loader compares with the slot.
pub(crate) fn description(
    id: MethodId,
    method: Description,
) -> Result<MethodDescription, CallError> {
    Ok(MethodDescription {
        id,
        label: bounds::label(method.label)?,
        version: bounds::version(method.version)?,
        currencies: bounds::currencies(&method.currencies)?.ok_or(CallError::BadReply(
            "none of the currencies can be an invoice's",
        ))?,
        translations: translations(method.translations)?,
        icon: icon(method.icon)?,
        settings: settings::specs(method.settings)?,
    })
}

fn translations(said: Vec<wit::Translation>) -> Result<Vec<Translation>, CallError> {
    let said = bounds::at_most(said, TRANSLATIONS, "too many translations")?;
    let mut known: Vec<Translation> = Vec::with_capacity(said.len());
    for translation in said {
        let language = translation.language;
        let tags = |known: &Translation| known.language.eq_ignore_ascii_case(&language);
        if !bounds::is_language(&language) || known.iter().any(tags) {
            return bounds::bad_reply(
                "a translation's language is no tag of BCP 47, or named twice",
            );
        }
        let note = translation
            .note
            .map(|note| bounds::within(note, NOTE, "a translation's note is over 160 bytes"));
        known.push(Translation {
            label: bounds::label(translation.label)?,
            note: note.transpose()?,
            language,
        });
    }
    Ok(known)
}

fn icon(shapes: Vec<wit::Shape>) -> Result<Vec<Shape>, CallError> {
    let shapes = bounds::at_most(shapes, SHAPES, "the icon has too many shapes")?;
    let data = |shape: &wit::Shape| match shape {
        wit::Shape::Line(data) | wit::Shape::Area(data) => data.len(),
    };
    if shapes.iter().map(data).sum::<usize>() > ICON {
        return bounds::bad_reply("the icon is over 4 KiB");
    }
    let path = |data| {
        PathData::parse(data).ok_or(CallError::BadReply(
            "a shape of the icon is no data of an SVG path",
        ))
    };
    let shape = |shape| match shape {
        wit::Shape::Line(data) => path(data).map(Shape::Line),
        wit::Shape::Area(data) => path(data).map(Shape::Area),
    };
    shapes.into_iter().map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(language: &str, label: &str) -> wit::Translation {
        wit::Translation {
            language: language.into(),
            label: label.into(),
            note: None,
        }
    }

    #[test]
    fn a_language_is_translated_once_and_by_its_tag() {
        let good = vec![said("de", "Karte"), said("pt-BR", "Cartão")];
        assert_eq!(translations(good).unwrap().len(), 2);
        for wrong in ["", "d", "de_AT", "de AT", "-de", "de-"] {
            assert!(translations(vec![said(wrong, "Karte")]).is_err(), "{wrong}");
        }
        let twice = vec![said("de", "Karte"), said("DE", "Karte")];
        assert!(translations(twice).is_err());
        assert!(translations(vec![said("de", " ")]).is_err());
        let long = wit::Translation {
            note: Some("n".repeat(NOTE + 1)),
            ..said("de", "Karte")
        };
        assert!(translations(vec![long]).is_err());
    }

    #[test]
    fn an_icon_holds_paths_alone_of_a_bounded_size() {
        let line = |data: &str| vec![wit::Shape::Line(data.into())];
        assert!(icon(line("M3 9.5 12 4l9 5.5zm2.5-1e1,4")).is_ok());
        for wrong in ["", "5 5", "M1 1\"/><script>", "M1 1&quot;", "Murl(x)"] {
            assert!(icon(line(wrong)).is_err(), "{wrong}");
        }
        assert!(icon(line(&format!("M{}", "1".repeat(ICON)))).is_err());
        assert!(icon(vec![wit::Shape::Area("M1 1".into()); SHAPES + 1]).is_err());
    }
}
