//! Reports about invoices.
use kassette_plugin::provider::{Money, Particulars, QueryPurpose, Report, Settlement, Status};

use crate::coins::Coins;
use crate::wire::{Additional, Invoice, InvoiceStatus};

impl Invoice {
    /// Whether each payment has to be checked before the report: the server only confirms an invoice that was paid
    /// in full and in time.
    pub(crate) fn is_odd(&self) -> bool {
        use Additional::{None, PaidOver};
        self.is_paid()
            && match self.status {
                InvoiceStatus::Settled => !matches!(self.additional, None | PaidOver),
                InvoiceStatus::New | InvoiceStatus::Processing | InvoiceStatus::Unknown => false,
                InvoiceStatus::Expired | InvoiceStatus::Invalid => true,
            }
    }

    /// Amount paid, in minor units: the server's own sum, which old servers omit; otherwise the amount due of an
    /// invoice that was settled normally; otherwise the value of the payments.
    fn paid(&self, coins: &Coins) -> Option<u64> {
        let settled = self.status == InvoiceStatus::Settled && !self.is_odd();
        let due = self.due.filter(|_| settled);
        // Paid exactly, independent of the current value of the payments.
        let exact = due.filter(|_| self.additional == Additional::None);
        let worth = coins.worth.filter(|worth| *worth > 0);
        self.paid.or(exact).or(worth).or(due)
    }

    /// Report about the invoice at a time. Completed only if the server settled it automatically, in full and in
    /// time. Money in any other case needs an operator, once the chain has confirmed it.
    pub(crate) fn report(self, purpose: QueryPurpose, now: u64, coins: Coins) -> Report {
        let sum = self.paid(&coins);
        let paid = self.is_paid() && sum != Some(0);
        let odd = self.is_odd() && paid;
        let in_order = paid && !odd && sum.is_some();
        let over = sum.zip(self.due).is_some_and(|(paid, due)| paid > due);
        let watched = self.watched_until.is_some_and(|until| now < until);
        let status = match self.status {
            // A partial payment may still be completed, unless the host has closed the attempt.
            InvoiceStatus::New if paid && purpose == QueryPurpose::Cancel => Status::Review,
            InvoiceStatus::New => Status::Pending,
            InvoiceStatus::Processing => Status::VerificationPending,
            InvoiceStatus::Unknown if self.paid.is_some_and(|paid| paid > 0) => {
                Status::VerificationPending
            }
            InvoiceStatus::Unknown => Status::Pending,
            // A wallet can send more than is due.
            InvoiceStatus::Settled if in_order && over => Status::Overpaid,
            InvoiceStatus::Settled if in_order => Status::Completed,
            InvoiceStatus::Settled => Status::Review,
            // Late or partial: while the server watches the invoice, the payments may still be confirmed.
            InvoiceStatus::Expired if odd && coins.unconfirmed && watched => {
                Status::VerificationPending
            }
            InvoiceStatus::Expired | InvoiceStatus::Invalid if odd => Status::Review,
            // The page accepts no payments, and no payment is in flight, because the server sees coins immediately
            // after they are sent. It reports later coins as late.
            InvoiceStatus::Expired if purpose != QueryPurpose::Cancel => Status::Expired,
            InvoiceStatus::Expired | InvoiceStatus::Invalid => Status::Declined,
        };
        let settled = matches!(status, Status::Completed | Status::Overpaid);
        let settlement = if settled {
            Settlement::Confirmed
        } else {
            Settlement::Pending
        };
        // Money that the chain has not confirmed does not count as received.
        let proved = match status {
            Status::Completed | Status::Overpaid => true,
            Status::Review => !coins.unconfirmed,
            _ => false,
        };
        let mut unreadable = self.unreadable;
        unreadable.extend(coins.unreadable);
        if proved && sum.is_none() {
            unreadable.note("no answer tells what was paid to the invoice");
        }
        let words = match self.additional {
            Additional::None => format!("{:?}", self.status),
            more => format!("{:?} {more:?}", self.status),
        };
        let reason = (self.additional != Additional::None && !settled)
            .then(|| format!("{:?}", self.additional));
        Report {
            reference: self.id,
            status,
            settlement,
            received: Money {
                amount: sum.filter(|_| proved).unwrap_or_default(),
                currency: self.currency,
            },
            given_back: 0,
            detail: words.clone(),
            particulars: Particulars {
                provider_status: Some(words),
                reason,
                references: coins.payments,
                authorised_at: coins.first_seen,
                instrument: (!coins.ways.is_empty()).then(|| coins.ways.join(", ")),
                unreadable: unreadable.into_sentences(),
                ..Particulars::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{read, told};

    /// An hour before the server stops watching for late coins.
    const NOW: u64 = 1_800_082_800_000;

    fn reported(
        status: &str,
        additional: &str,
        paid: &str,
        purpose: QueryPurpose,
        coins: Coins,
    ) -> Report {
        let report = read(&told(status, additional, paid)).unwrap();
        let report = report.report(purpose, NOW, coins);
        assert_eq!(
            report.settlement == Settlement::Confirmed,
            matches!(report.status, Status::Completed | Status::Overpaid)
        );
        report
    }

    fn report(status: &str, additional: &str, paid: &str, purpose: QueryPurpose) -> (Status, u64) {
        let report = reported(status, additional, paid, purpose, Coins::default());
        (report.status, report.received.amount)
    }

    fn unconfirmed() -> Coins {
        Coins {
            unconfirmed: true,
            ..Coins::default()
        }
    }

    #[test]
    fn each_state_has_its_report() {
        for (status, additional, paid, said, received) in [
            ("New", "None", "0", Status::Pending, 0),
            ("New", "PaidPartial", "20.00", Status::Pending, 0),
            (
                "Processing",
                "None",
                "49.90",
                Status::VerificationPending,
                0,
            ),
            (
                "Processing",
                "PaidOver",
                "60",
                Status::VerificationPending,
                0,
            ),
            (
                "Processing",
                "PaidLate",
                "49.90",
                Status::VerificationPending,
                0,
            ),
            ("Settled", "None", "49.90", Status::Completed, 4990),
            ("Settled", "PaidOver", "60.00", Status::Overpaid, 6000),
            ("Settled", "PaidLate", "49.90", Status::Review, 4990),
            ("Settled", "PaidPartial", "49.00", Status::Review, 4900),
            ("Settled", "Marked", "0", Status::Review, 0),
            ("Settled", "None", "0", Status::Review, 0),
            ("Expired", "None", "0", Status::Expired, 0),
            ("Expired", "PaidPartial", "20.00", Status::Review, 2000),
            ("Expired", "PaidLate", "49.90", Status::Review, 4990),
            ("Invalid", "Marked", "0", Status::Declined, 0),
            ("Invalid", "Invalid", "49.90", Status::Review, 4990),
        ] {
            assert_eq!(
                report(status, additional, paid, QueryPurpose::Sync),
                (said, received),
                "{status} {additional} {paid}"
            );
        }
    }

    #[test]
    fn coins_that_came_late_are_no_money_before_the_chain_has_confirmed_them() {
        for (status, additional, said) in [
            ("Expired", "PaidLate", Status::VerificationPending),
            ("Expired", "PaidPartial", Status::VerificationPending),
            // The server has given them up, or an operator has marked them there.
            ("Invalid", "Invalid", Status::Review),
            ("Settled", "Marked", Status::Review),
        ] {
            let report = reported(
                status,
                additional,
                "49.90",
                QueryPurpose::Sync,
                unconfirmed(),
            );
            assert_eq!(
                (report.status, report.received.amount),
                (said, 0),
                "{status}"
            );
        }
        let mut given_up = told("Expired", "PaidLate", "49.90");
        given_up["monitoringExpiration"] = serde_json::json!(NOW / 1_000);
        let report = read(&given_up)
            .unwrap()
            .report(QueryPurpose::Sync, NOW, unconfirmed());
        assert_eq!((report.status, report.received.amount), (Status::Review, 0));
    }

    #[test]
    fn closing_is_certain_only_where_nothing_came() {
        assert_eq!(
            report("Expired", "None", "0", QueryPurpose::Cancel).0,
            Status::Declined
        );
        assert_eq!(
            report("Invalid", "Marked", "0", QueryPurpose::Cancel).0,
            Status::Declined
        );
        assert_eq!(
            report("New", "PaidPartial", "20", QueryPurpose::Cancel),
            (Status::Review, 2000)
        );
    }

    #[test]
    fn the_transactions_the_way_and_the_servers_words_are_told() {
        let coins = Coins {
            unconfirmed: false,
            payments: vec!["aa11-0".into()],
            ways: vec!["BTC-CHAIN".into(), "BTC-LN".into()],
            first_seen: Some(7),
            ..Coins::default()
        };
        let late = reported("Expired", "PaidLate", "49.90", QueryPurpose::Sync, coins).particulars;
        assert_eq!(late.provider_status.as_deref(), Some("Expired PaidLate"));
        assert_eq!(late.reason.as_deref(), Some("PaidLate"));
        assert_eq!(late.references, ["aa11-0"]);
        assert_eq!(late.instrument.as_deref(), Some("BTC-CHAIN, BTC-LN"));
        assert_eq!(late.authorised_at, Some(7));
        let over = reported(
            "Settled",
            "PaidOver",
            "60",
            QueryPurpose::Sync,
            Coins::default(),
        )
        .particulars;
        assert_eq!(over.provider_status.as_deref(), Some("Settled PaidOver"));
        assert_eq!(over.reason, None);
    }

    #[test]
    fn an_old_server_does_not_tell_what_was_paid() {
        let old = |status: &str, additional: &str, coins: Coins| {
            let mut told = told(status, additional, "0");
            told["paidAmount"] = serde_json::Value::Null;
            let report = read(&told).unwrap().report(QueryPurpose::Sync, NOW, coins);
            (report.status, report.received.amount)
        };
        let worth = |worth| Coins {
            worth: Some(worth),
            ..Coins::default()
        };
        for (status, additional, coins, said) in [
            ("Settled", "None", worth(4988), (Status::Completed, 4990)),
            (
                "Settled",
                "None",
                Coins::default(),
                (Status::Completed, 4990),
            ),
            ("Settled", "PaidOver", worth(6000), (Status::Overpaid, 6000)),
            ("Expired", "PaidLate", worth(4990), (Status::Review, 4990)),
            (
                "Expired",
                "PaidPartial",
                Coins::default(),
                (Status::Review, 0),
            ),
            ("Expired", "None", worth(0), (Status::Expired, 0)),
            (
                "Processing",
                "None",
                worth(4990),
                (Status::VerificationPending, 0),
            ),
        ] {
            assert_eq!(
                old(status, additional, coins),
                said,
                "{status} {additional}"
            );
        }
    }

    #[test]
    fn an_unknown_status_is_noted_and_ends_nothing() {
        for (paid, status) in [
            ("0", Status::Pending),
            ("49.90", Status::VerificationPending),
        ] {
            let odd = reported(
                "Frozen",
                "None",
                paid,
                QueryPurpose::Cancel,
                Coins::default(),
            );
            assert_eq!((odd.status, odd.received.amount), (status, 0));
            assert_eq!(odd.particulars.unreadable.len(), 1);
        }
        let late = reported(
            "Expired",
            "PaidTwice",
            "49.90",
            QueryPurpose::Sync,
            Coins::default(),
        );
        assert_eq!((late.status, late.received.amount), (Status::Review, 4990));
    }
}
