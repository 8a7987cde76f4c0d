//! The page after a refused authorization.
use kassette_plugin::provider::{Account, CallbackFailure, QueryFailure, Report, Status};
use kassette_plugin::settings;

use crate::link;
use crate::notification::Item;
use crate::reference::{Payment, Stage};
use crate::wire::is_plain;

/// Setting: whether a hosted page stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// Reports a refused authorization. `None` makes the host query.
///
/// A hosted page stays open, so that the payer can try another card. Only this module captures payments made
/// there, so the attempt can end at any time. A link is expired here, because later queries would not show the
/// refusal.
pub(crate) fn heard(
    account: &Account,
    item: &Item,
    payment: &Payment,
) -> Result<Option<Report>, CallbackFailure> {
    const DETAIL: &str = "AUTHORISATION refused";
    // A payer who cancels was not declined.
    let reason = item.hints.reason.as_deref().unwrap_or_default();
    let given_up = reason.to_ascii_lowercase().contains("cancel");
    let told = |mut report: Report| {
        if given_up && report.status == Status::Declined {
            report.status = Status::Cancelled;
        }
        report.particulars.reason.clone_from(&item.hints.reason);
        report.particulars.provider_status = Some("Refused".into());
        report
    };
    let of = |id: &Option<String>| id.clone().filter(|id| is_plain(id));
    if let Some(link) = of(&item.hints.link) {
        return match link::end(account, &item.reference, &link, DETAIL) {
            Ok(report) => Ok(report.map(told)),
            // Adyen retries the notification, so that the link can be queried later.
            Err(QueryFailure::Unavailable(why)) => Err(CallbackFailure::Later(why)),
            Err(QueryFailure::Absent) => Ok(None),
        };
    }
    let keep_open = settings::flag(&account.settings, KEEP_OPEN, true)
        .map_err(|refusal| CallbackFailure::Later(refusal.detail))?;
    let report = payment.at(Stage::Cancelled).cancelled(DETAIL);
    Ok(match (keep_open, of(&item.hints.session)) {
        (false, _) => Some(told(Report {
            status: Status::Declined,
            ..report
        })),
        // The page's id: the host would otherwise use the refused payment as the attempt's reference.
        (true, Some(session)) => Some(told(Report {
            status: Status::Pending,
            reference: session,
            ..report
        })),
        (true, None) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callback::tests::heard;
    use crate::notification::tests::signed_item;
    use crate::tests::account;
    use serde_json::{Value, json};

    #[test]
    fn a_refused_card_leaves_its_page_open_unless_the_account_wants_it_ended() {
        let refused = |extra: Value, keep: Option<&str>| {
            let mut account = account();
            let setting = keep.map(|keep| (KEEP_OPEN.to_owned(), keep.to_owned()));
            account.settings.extend(setting);
            let mut item = signed_item("AUTHORISATION", false, "", extra);
            item["NotificationRequestItem"]["reason"] = json!("Not enough balance");
            heard(&account, &[item])
        };
        let page = json!({ "checkoutSessionId": "CS1" });
        for keep in [None, Some("true")] {
            let open = refused(page.clone(), keep);
            let [open] = open.as_slice() else {
                panic!("one report")
            };
            assert_eq!(
                (open.status, open.reference.as_str()),
                (Status::Pending, "CS1")
            );
            let reason = open.particulars.reason.as_deref();
            assert_eq!(reason, Some("Not enough balance"));
            // Without the page's id the host queries.
            assert_eq!(refused(json!({}), keep), []);
        }
        let ended = refused(page, Some("false"));
        let ended: Vec<Status> = ended.iter().map(|report| report.status).collect();
        assert_eq!(ended, [Status::Declined]);
    }
}
