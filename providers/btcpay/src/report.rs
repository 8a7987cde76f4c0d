//! What an invoice says.
use kassette_plugin::provider::{Money, Particulars, QueryPurpose, Report, Settlement, Status};

use crate::coins::Coins;
use crate::wire::{Additional, Invoice, InvoiceStatus};

impl Invoice {
    /// Whether what came needs a look at each coin before anything can be said of it: the server
    /// confirms an invoice that is in order, and no other.
    pub(crate) fn is_odd(&self) -> bool {
        use Additional::{None, PaidOver};
        self.paid > 0
            && match self.status {
                InvoiceStatus::Settled => !matches!(self.additional, None | PaidOver),
                InvoiceStatus::New | InvoiceStatus::Processing => false,
                InvoiceStatus::Expired | InvoiceStatus::Invalid => true,
            }
    }

    /// What it says at a time. Only what the server settled by itself, in full and in time, is
    /// completed; whatever else money came with is for a person, once the chain has confirmed it.
    pub(crate) fn report(self, purpose: QueryPurpose, now: u64, coins: Coins) -> Report {
        let paid = self.paid > 0;
        let odd = self.is_odd();
        let status = match self.status {
            // A part may still become the whole, unless no payment waits for the rest.
            InvoiceStatus::New if paid && purpose == QueryPurpose::Cancel => Status::Review,
            InvoiceStatus::New => Status::Pending,
            InvoiceStatus::Processing => Status::VerificationPending,
            // A wallet can send more than is due.
            InvoiceStatus::Settled if paid && !odd && self.paid > self.due.amount => {
                Status::Overpaid
            }
            InvoiceStatus::Settled if paid && !odd => Status::Completed,
            InvoiceStatus::Settled => Status::Review,
            // Late, or too little: what the server still looks at may be confirmed yet.
            InvoiceStatus::Expired if odd && coins.unconfirmed && now < self.watched_until => {
                Status::VerificationPending
            }
            InvoiceStatus::Expired | InvoiceStatus::Invalid if odd => Status::Review,
            // The page takes nothing any more, and nothing is on its way: coins are seen as soon as they
            // are sent. Who sends some all the same has them told by the server as late.
            InvoiceStatus::Expired if purpose != QueryPurpose::Cancel => Status::Expired,
            InvoiceStatus::Expired | InvoiceStatus::Invalid => Status::Declined,
        };
        let settled = matches!(status, Status::Completed | Status::Overpaid);
        let settlement = if settled {
            Settlement::Confirmed
        } else {
            Settlement::Pending
        };
        // What the chain has not confirmed is not received.
        let proved = match status {
            Status::Completed | Status::Overpaid => true,
            Status::Review => !coins.unconfirmed,
            _ => false,
        };
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
                amount: if proved { self.paid } else { 0 },
                currency: self.due.currency,
            },
            given_back: 0,
            detail: words.clone(),
            particulars: Particulars {
                provider_status: Some(words),
                reason,
                references: coins.payments,
                authorised_at: coins.first_seen,
                instrument: (!coins.ways.is_empty()).then(|| coins.ways.join(", ")),
                ..Particulars::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{read, told};

    /// An hour before the server stops looking for late coins.
    const NOW: u64 = 1_800_082_800_000;

    fn of(
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
        let report = of(status, additional, paid, purpose, Coins::default());
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
            // The server has given them up, or a person has vouched for them there.
            ("Invalid", "Invalid", Status::Review),
            ("Settled", "Marked", Status::Review),
        ] {
            let report = of(
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
        };
        let late = of("Expired", "PaidLate", "49.90", QueryPurpose::Sync, coins).particulars;
        assert_eq!(late.provider_status.as_deref(), Some("Expired PaidLate"));
        assert_eq!(late.reason.as_deref(), Some("PaidLate"));
        assert_eq!(late.references, ["aa11-0"]);
        assert_eq!(late.instrument.as_deref(), Some("BTC-CHAIN, BTC-LN"));
        assert_eq!(late.authorised_at, Some(7));
        let over = of(
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
}
