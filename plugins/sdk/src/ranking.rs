//! What every payment method shares: refusing what cannot work and ordering what can.
//!
//! The `require_*` functions judge the payment as a whole and are used with `?` at the top of
//! `rank`; [`Ranking`] then gives exactly one verdict per candidate. A hint that is absent (amount,
//! country) never refuses anything.
//!
//! [`settings`] lists what an operator may set for every method that uses this module.
mod requirements;

pub use requirements::{
    require_amount, require_country, require_currency, require_operator_limits, require_usd,
};

use crate::amount;
use crate::method::{
    Availability, Candidate, Context, Ground, Refusal, Setting, SettingForm, SettingSpec, Verdict,
};
use crate::settings;

/// Longest text of a reason or a refusal that the host accepts, in bytes.
pub const MAX_TEXT: usize = 200;

/// What counts among candidates of equal health. What is unknown counts as worst; ties are broken
/// by the rest, then by id, so that the same question always has the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The operator's priority, then cost.
    Priority,
    /// The operator's priority, then the share of starts that worked.
    PrioritySuccess,
    /// The lower fee, then priority.
    Cost,
    /// The higher share of starts that worked, then priority.
    Success,
    /// The lower median time of a start, then priority.
    Speed,
}

impl Order {
    const WORDS: [(&'static str, Self); 5] = [
        ("priority", Self::Priority),
        ("priority-success", Self::PrioritySuccess),
        ("cost", Self::Cost),
        ("success", Self::Success),
        ("speed", Self::Speed),
    ];
}

/// The settings that are read here.
#[must_use]
pub fn settings() -> Vec<SettingSpec> {
    vec![
        SettingSpec::optional("order", "What counts among accounts of equal health")
            .among(&Order::WORDS.map(|(word, _)| word))
            .or("the method's own"),
        SettingSpec::optional(
            "success-floor",
            "Share of starts that worked, per thousand: an account measured below it ranks after the others \
             of its health",
        )
        .of(SettingForm::Number((0, 1000)))
        .or("none"),
        SettingSpec::optional("minimum-usd", "The operator's own smallest payment, in US dollars")
            .of(SettingForm::Amount)
            .or("none"),
        SettingSpec::optional("maximum-usd", "The operator's own largest payment, in US dollars")
            .of(SettingForm::Amount)
            .or("none"),
        SettingSpec::optional("countries", "Countries of payers that may use it")
            .of(SettingForm::Countries)
            .or("the scheme's own"),
        SettingSpec::optional("blocked-countries", "Countries of payers that are refused")
            .of(SettingForm::Countries)
            .or("none"),
    ]
}

/// Judges these settings together.
///
/// # Errors
/// A sentence for the operator.
pub fn check_settings(settings: &[Setting]) -> Result<(), String> {
    let limit = |name| settings::amount(settings, name).map_err(|refusal| refusal.detail);
    let (minimum, maximum) = (limit("minimum-usd")?, limit("maximum-usd")?);
    if minimum
        .zip(maximum)
        .is_some_and(|(least, most)| least > most)
    {
        return Err("minimum-usd is above maximum-usd: no payment would be taken".into());
    }
    if settings::text(settings, "blocked-countries") == Some("any") {
        return Err("blocked-countries lists countries; to refuse every payer, disable the method in the merchants' policies".into());
    }
    Ok(())
}

/// Judges one candidate beyond health and limits.
pub type Check<'a> = &'a dyn Fn(&Candidate) -> Result<(), Refusal>;

/// Says why a candidate ranks after the others of its health; none where it does not.
pub type Demotion<'a> = &'a dyn Fn(&Candidate) -> Option<&'static str>;

/// A refusal; text beyond what the host accepts is cut.
#[must_use]
pub fn refusal(ground: Ground, detail: impl Into<String>) -> Refusal {
    let mut detail = detail.into();
    detail.truncate(detail.floor_char_boundary(MAX_TEXT));
    Refusal { ground, detail }
}

/// One verdict per candidate: those that are neither stale nor down and whose limits hold, best
/// first, then the refused ones.
///
/// ```
/// # use kassette_plugin::method::*;
/// # use kassette_plugin::ranking::*;
/// fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
///     let check = |candidate: &Candidate| match candidate.id.as_str() {
///         "retired" => Err(refusal(Ground::Policy, "no longer used")),
///         _ => Ok(()),
///     };
///     Ok(Ranking::of(&context, Order::Priority)?.check(&check).verdicts())
/// }
/// ```
pub struct Ranking<'a> {
    context: &'a Context,
    order: Order,
    success_floor: u64,
    // None rather than one that does nothing: in a fresh instance the first call of a function by
    // its address costs more than a candidate's whole judgement.
    check: Option<Check<'a>>,
    demotion: Option<Demotion<'a>>,
}

impl<'a> Ranking<'a> {
    /// The ranking of a question's candidates, in the operator's order or else in `order`.
    ///
    /// # Errors
    /// [`Ground::Policy`] where a setting cannot be read.
    pub fn of(context: &'a Context, order: Order) -> Result<Self, Refusal> {
        Ok(Self {
            context,
            order: settings::choice(&context.settings, "order", &Order::WORDS, order)?,
            success_floor: settings::number(&context.settings, "success-floor")?.unwrap_or(0),
            check: None,
            demotion: None,
        })
    }

    /// Adds the method's own judgement of a candidate.
    #[must_use]
    pub fn check(mut self, check: Check<'a>) -> Self {
        self.check = Some(check);
        self
    }

    /// Adds the method's own reason to rank a candidate later.
    #[must_use]
    pub fn demote(mut self, demotion: Demotion<'a>) -> Self {
        self.demotion = Some(demotion);
        self
    }

    /// The answer to `rank`.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut eligible: Vec<Eligible> = Vec::with_capacity(self.context.candidates.len());
        let mut refused: Vec<Verdict> = Vec::new();
        // at most 64 candidates: inserting in order is quick, and a tenth of a sort's code
        for candidate in &self.context.candidates {
            match self.judge(candidate) {
                Ok(()) => {
                    let new = self.eligible(candidate);
                    let key = self.key(&new);
                    let at = eligible.partition_point(|other| self.key(other) < key);
                    eligible.insert(at, new);
                }
                Err(refusal) => {
                    let id = candidate.id.clone();
                    let at = refused.partition_point(|other| other.id < id);
                    let outcome = Err(refusal);
                    refused.insert(at, Verdict { id, outcome });
                }
            }
        }
        let count = eligible.len();
        let mut verdicts: Vec<Verdict> = eligible
            .iter()
            .enumerate()
            .map(|(index, eligible)| Verdict {
                id: eligible.candidate.id.clone(),
                outcome: Ok(self.reason(eligible, index + 1, count)),
            })
            .collect();
        verdicts.append(&mut refused);
        verdicts
    }

    fn judge(&self, candidate: &Candidate) -> Result<(), Refusal> {
        match candidate.health.status {
            Availability::Down => return Err(refusal(Ground::Health, "its starts fail")),
            Availability::Stale => return Err(refusal(Ground::Health, "nothing recent is known")),
            Availability::Operational | Availability::Degraded => {}
        }
        if let Some(amount) = self.context.amount {
            let currency = &self.context.currency;
            if let Some(minimum) = candidate.minimum.filter(|minimum| amount < *minimum) {
                let minimum = amount::format(minimum, currency);
                return Err(refusal(Ground::Amount, format!("below its {minimum}")));
            }
            if let Some(maximum) = candidate.maximum.filter(|maximum| amount > *maximum) {
                let maximum = amount::format(maximum, currency);
                return Err(refusal(Ground::Amount, format!("above its {maximum}")));
            }
        }
        self.check.map_or(Ok(()), |check| check(candidate))
    }

    fn eligible<'b>(&self, candidate: &'b Candidate) -> Eligible<'b> {
        let unsteady = candidate
            .health
            .success
            .is_some_and(|success| u64::from(success) < self.success_floor);
        let later = if unsteady {
            Some("below the success floor")
        } else {
            self.demotion.and_then(|demotion| demotion(candidate))
        };
        Eligible { candidate, later }
    }

    fn key<'b>(&self, eligible: &Eligible<'b>) -> (u8, bool, [i64; 4], &'b str) {
        let candidate = eligible.candidate;
        let health = match candidate.health.status {
            Availability::Operational => 0,
            Availability::Degraded => 1,
            Availability::Down | Availability::Stale => 2,
        };
        let priority = -i64::from(candidate.priority);
        let cost = candidate
            .fee
            .map_or(i64::MAX, |fee| i64::try_from(fee).unwrap_or(i64::MAX));
        let success = candidate
            .health
            .success
            .map_or(0, |success| -i64::from(success));
        let speed = candidate.health.latency.map_or(i64::MAX, i64::from);
        let order = match self.order {
            Order::Priority => [priority, cost, success, speed],
            Order::PrioritySuccess => [priority, success, cost, speed],
            Order::Cost => [cost, priority, success, speed],
            Order::Success => [success, priority, cost, speed],
            Order::Speed => [speed, priority, cost, success],
        };
        (health, eligible.later.is_some(), order, &candidate.id)
    }

    /// "1 of 3: operational, priority 5, fee 0.29 EUR"
    fn reason(&self, eligible: &Eligible<'_>, place: usize, count: usize) -> String {
        let candidate = eligible.candidate;
        let health = match candidate.health.status {
            Availability::Degraded => "degraded",
            _ => "operational",
        };
        // A text of usual length in one piece, written without `format!`: see `amount::push`.
        let mut reason = String::with_capacity(96);
        amount::push_number(&mut reason, place as u64);
        reason.push_str(" of ");
        amount::push_number(&mut reason, count as u64);
        reason.push_str(": ");
        reason.push_str(health);
        reason.push_str(", priority ");
        if candidate.priority < 0 {
            reason.push('-');
        }
        amount::push_number(&mut reason, candidate.priority.unsigned_abs().into());
        if let Some(fee) = candidate.fee {
            reason.push_str(", fee ");
            amount::push(&mut reason, fee, &self.context.currency);
        }
        if let Some(success) = candidate.health.success {
            reason.push_str(", ");
            amount::push_number(&mut reason, (success / 10).into());
            reason.push('.');
            amount::push_number(&mut reason, (success % 10).into());
            reason.push_str(" % work");
        }
        if let Some(later) = eligible.later {
            reason.push_str(", later because ");
            reason.push_str(later);
        }
        reason.truncate(reason.floor_char_boundary(MAX_TEXT));
        reason
    }
}

struct Eligible<'a> {
    candidate: &'a Candidate,
    later: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{candidate, context, eligible, set};

    fn ranked(context: &Context, order: Order) -> Vec<String> {
        let verdicts = Ranking::of(context, order).unwrap().verdicts();
        eligible(&verdicts).into_iter().map(str::to_owned).collect()
    }

    fn with(candidates: Vec<Candidate>) -> Context {
        Context {
            candidates,
            ..context("EUR", Some("49.90"))
        }
    }

    fn of(id: &str, priority: i32, fee: Option<u64>) -> Candidate {
        Candidate {
            priority,
            fee,
            ..candidate(id)
        }
    }

    #[test]
    fn health_comes_before_priority_and_priority_before_cost() {
        let mut degraded = of("degraded", 100, Some(1));
        degraded.health.status = Availability::Degraded;
        let context = with(vec![
            degraded,
            of("dear", 5, Some(90)),
            of("cheap", 0, Some(10)),
            of("wanted", 5, Some(80)),
        ]);
        let order = ranked(&context, Order::Priority);
        assert_eq!(order, ["wanted", "dear", "cheap", "degraded"]);
        let order = ranked(&context, Order::Cost);
        assert_eq!(order, ["cheap", "wanted", "dear", "degraded"]);
    }

    #[test]
    fn an_unknown_fee_or_latency_counts_as_the_worst() {
        let mut quick = of("quick", 0, None);
        quick.health.latency = Some(100);
        let context = with(vec![
            of("unknown", 0, None),
            quick,
            of("priced", 0, Some(500)),
        ]);
        assert_eq!(
            ranked(&context, Order::Cost),
            ["priced", "quick", "unknown"]
        );
        assert_eq!(
            ranked(&context, Order::Speed),
            ["quick", "priced", "unknown"]
        );
    }

    #[test]
    fn the_operators_order_comes_before_the_methods() {
        let context = with(vec![of("wanted", 9, Some(90)), of("cheap", 0, Some(1))]);
        assert_eq!(ranked(&context, Order::Priority), ["wanted", "cheap"]);
        let context = set(context, "order", "cost");
        assert_eq!(ranked(&context, Order::Priority), ["cheap", "wanted"]);
        let wrong = set(context, "order", "luck");
        let refusal = Ranking::of(&wrong, Order::Priority).err().unwrap();
        assert_eq!(refusal.ground, Ground::Policy);
    }

    #[test]
    fn below_the_success_floor_ranks_later_but_stays() {
        let mut shaky = of("shaky", 9, None);
        shaky.health.success = Some(700);
        let context = set(
            with(vec![shaky, of("new", 0, None)]),
            "success-floor",
            "900",
        );
        assert_eq!(ranked(&context, Order::Priority), ["new", "shaky"]);
    }

    #[test]
    fn stale_down_and_outside_of_limits_are_refused_with_their_ground() {
        let mut stale = candidate("stale");
        stale.health.status = Availability::Stale;
        let mut down = candidate("down");
        down.health.status = Availability::Down;
        let low = Candidate {
            maximum: Some(4_989),
            ..candidate("low")
        };
        let high = Candidate {
            minimum: Some(4_991),
            ..candidate("high")
        };
        let exact = Candidate {
            minimum: Some(4_990),
            maximum: Some(4_990),
            ..candidate("exact")
        };
        let context = with(vec![stale, down, low, high, exact]);
        let verdicts = Ranking::of(&context, Order::Priority).unwrap().verdicts();
        assert_eq!(eligible(&verdicts), ["exact"]);
        let grounds: Vec<_> = verdicts
            .iter()
            .filter_map(|one| Some((one.id.as_str(), one.outcome.as_ref().err()?.ground)))
            .collect();
        let expected = [
            ("down", Ground::Health),
            ("high", Ground::Amount),
            ("low", Ground::Amount),
            ("stale", Ground::Health),
        ];
        assert_eq!(grounds, expected);
    }

    #[test]
    fn without_an_amount_no_limit_applies() {
        let mut context = with(vec![Candidate {
            minimum: Some(1 << 40),
            ..candidate("a")
        }]);
        context.amount = None;
        assert_eq!(ranked(&context, Order::Priority), ["a"]);
    }

    #[test]
    fn reasons_say_place_health_and_fee() {
        let mut one = of("one", 3, Some(29));
        one.health.success = Some(987);
        let context = with(vec![one, of("two", 0, None)]);
        let verdicts = Ranking::of(&context, Order::Priority).unwrap().verdicts();
        let reason = verdicts.first().unwrap().outcome.clone().unwrap();
        assert_eq!(
            reason,
            "1 of 2: operational, priority 3, fee 0.29 EUR, 98.7 % work"
        );
        let context = with(vec![of("one", i32::MIN, Some(12_305))]);
        let verdicts = Ranking::of(&context, Order::Priority).unwrap().verdicts();
        let reason = verdicts.first().unwrap().outcome.clone().unwrap();
        assert_eq!(
            reason,
            "1 of 1: operational, priority -2147483648, fee 123.05 EUR"
        );
    }

    #[test]
    fn a_refusals_text_is_cut_between_characters() {
        assert_eq!(
            refusal(Ground::Other, "ä".repeat(101)).detail.len(),
            MAX_TEXT
        );
        assert_eq!(
            refusal(Ground::Other, format!("x{}", "ä".repeat(100)))
                .detail
                .len(),
            199
        );
    }
}
