//! Methods that accounts refuse because they are not activated there.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::method::MethodId;
use kassette_domain::money::Currency;
use kassette_domain::time::Time;

/// Refusals in a row after which a method is omitted (decisions, "Health of an account").
const IN_A_ROW: u32 = 3;
/// How long a method is omitted.
const OMITTED_FOR: Duration = Duration::from_secs(15 * 60);

/// A method and currency that an account refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Refused {
    pub(crate) account: AccountId,
    pub(crate) method: MethodId,
    pub(crate) currency: Currency,
}

impl Refused {
    /// Id of its work item. The same on every node.
    pub(crate) fn line(&self) -> AttemptId {
        let name = format!(
            "method_refused\n{}\n{}\n{}",
            self.account,
            self.method,
            self.currency.code()
        );
        AttemptId::of_name(&name)
    }
}

/// Refusals of methods. Bounded by the methods and currencies of the configured accounts.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    counted: HashMap<Refused, Count>,
    /// Work items that were open when the work list was last read.
    listed: HashSet<AttemptId>,
}

#[derive(Debug, Default)]
struct Count {
    in_a_row: u32,
    omitted_until: Option<Time>,
}

impl Refusals {
    /// Counts a refusal by the account. Returns whether the method is now omitted.
    pub(crate) fn refused(&mut self, what: Refused, now: Time) -> bool {
        let count = self.counted.entry(what).or_default();
        count.in_a_row = count.in_a_row.saturating_add(1);
        let is_omitted = count.in_a_row >= IN_A_ROW;
        if is_omitted {
            count.omitted_until = Some(now.after(OMITTED_FOR));
        }
        is_omitted
    }

    /// Records that the account accepted the method. Returns whether a work item about it may be open.
    pub(crate) fn took(&mut self, what: &Refused) -> bool {
        if self.counted.is_empty() && self.listed.is_empty() {
            return false;
        }
        let count = self.counted.remove(what);
        let was_listed = self.listed.remove(&what.line());
        was_listed || count.is_some_and(|count| count.omitted_until.is_some())
    }

    /// Methods and currencies that are omitted at an account.
    pub(crate) fn omitted(&self, account: &AccountId, now: Time) -> Vec<(MethodId, Currency)> {
        let counted = self.counted.iter();
        counted
            .filter(|(what, count)| {
                what.account == *account && count.omitted_until.is_some_and(|until| now < until)
            })
            .map(|(what, _)| (what.method, what.currency))
            .collect()
    }

    /// Replaces the set of open work items.
    pub(crate) fn set_listed(&mut self, listed: HashSet<AttemptId>) {
        self.listed = listed;
    }

    /// Removes accounts that are no longer configured.
    pub(crate) fn keep(&mut self, configured: impl Fn(&AccountId) -> bool) {
        self.counted.retain(|what, _| configured(&what.account));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_795_000_000);

    fn what(currency: Currency) -> Refused {
        Refused {
            account: AccountId::parse("alpha").unwrap(),
            method: MethodId::Ideal,
            currency,
        }
    }

    #[test]
    fn a_method_is_omitted_after_three_refusals_in_a_row_for_a_quarter_of_an_hour() {
        let mut refusals = Refusals::default();
        let eur = what(Currency::EUR);
        assert!(!refusals.refused(eur.clone(), NOW));
        assert!(!refusals.refused(eur.clone(), NOW));
        assert!(!refusals.took(&eur), "nothing was omitted");
        let omits: Vec<_> = (0..3).map(|_| refusals.refused(eur.clone(), NOW)).collect();
        assert_eq!(omits, [false, false, true]);
        let omitted = |refusals: &Refusals, now| refusals.omitted(&eur.account, now);
        let method = [(MethodId::Ideal, Currency::EUR)];
        assert_eq!(omitted(&refusals, NOW), method);
        let later = NOW.after(OMITTED_FOR);
        assert_eq!(omitted(&refusals, later), []);
        // No start has succeeded since.
        assert!(refusals.refused(eur.clone(), later));
        assert!(refusals.took(&eur));
        assert_eq!(omitted(&refusals, later), []);
    }

    #[test]
    fn another_currency_of_the_method_stays() {
        let mut refusals = Refusals::default();
        for _ in 0..3 {
            refusals.refused(what(Currency::HUF), NOW);
        }
        assert!(!refusals.took(&what(Currency::EUR)));
        let omitted = refusals.omitted(&what(Currency::EUR).account, NOW);
        assert_eq!(omitted, [(MethodId::Ideal, Currency::HUF)]);
    }

    #[test]
    fn a_line_of_another_process_is_known_from_the_work_list() {
        let mut refusals = Refusals::default();
        let eur = what(Currency::EUR);
        refusals.set_listed([eur.line()].into());
        assert!(refusals.took(&eur));
        assert!(!refusals.took(&eur));
    }
}
