//! A try of the payer's that was refused: what becomes of the page on which it was made.
use kassette_plugin::provider::{Account, CallbackFailure, QueryFailure, Report, Status};
use kassette_plugin::settings;

use crate::link;
use crate::notification::Item;
use crate::reference::{Payment, Stage};
use crate::wire::is_plain;

/// Setting: whether a hosted page stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// After a refused try. What was begun is over, and the page it was begun on may be open.
///
/// A hosted page stays open, so that the payer tries another card; nothing that is approved there is
/// captured but by us, so that the attempt can end at any time. A link is ended here, because nothing
/// that could be asked later would tell of the refusal.
pub(crate) fn heard(
    account: &Account,
    item: &Item,
    payment: &Payment,
) -> Result<Option<Report>, CallbackFailure> {
    const DETAIL: &str = "AUTHORISATION refused";
    let told = |mut report: Report| {
        report.particulars.reason.clone_from(&item.hints.reason);
        report.particulars.provider_status = Some("Refused".into());
        report
    };
    let of = |id: &Option<String>| id.clone().filter(|id| is_plain(id));
    if let Some(link) = of(&item.hints.link) {
        return match link::end(account, &item.reference, &link, DETAIL) {
            Ok(report) => Ok(report.map(told)),
            // Sent again, once Adyen can be asked.
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
        // The page's own id: the refused payment's would be taken for the attempt's.
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
            // A page that is not named makes the host ask.
            assert_eq!(refused(json!({}), keep), []);
        }
        let ended = refused(page, Some("false"));
        let ended: Vec<Status> = ended.iter().map(|report| report.status).collect();
        assert_eq!(ended, [Status::Declined]);
    }
}
