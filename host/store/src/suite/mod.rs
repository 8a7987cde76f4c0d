//! Behavior that every store must have. A store runs it unchanged:
//!
//! ```ignore
//! kassette_store::store_suite!(MyHarness::new());
//! ```
//!
//! A [`Harness`] is a place for one store, which is empty at first. The tests use only the traits, with times
//! and ids of their own.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests: a failure is told by a panic"
)]

pub mod cluster;
pub mod connects;
pub mod creation;
pub mod deliveries;
pub mod directory;
pub mod due;
pub mod endpoints;
pub mod events;
pub mod fixtures;
pub mod full;
pub mod keys;
pub mod lists;
pub mod movements;
pub mod nonces;
pub mod pending_callbacks;
pub mod refunds;
pub mod resellers;
pub mod retention;
pub mod routing_log;
pub mod search;
pub mod steps;
pub mod survival;
pub mod trials;
pub mod work;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::Store;

/// A place for one store.
pub trait Harness: Send + Sync {
    /// Whether a store can be opened here. A test reports that it was skipped if not.
    fn is_available(&self) -> bool {
        true
    }

    /// Opens the store of this place. The previous one was shut down.
    fn open(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>>;
}

/// Creates a test for each behavior. The expression creates a new, empty [`Harness`] for each.
#[macro_export]
macro_rules! store_suite {
    ($harness:expr) => {
        $crate::store_suite!(@each $harness;
            creation {
                the_same_request_at_once_makes_one_payment,
                differing_requests_with_one_reference_are_told_apart,
                references_are_one_space_per_merchant_and_per_reseller,
                a_replay_is_found_before_anything_is_written,
                a_replay_shows_the_payment_as_it_stands,
                only_a_usable_key_of_the_owner_creates,
                an_erased_address_is_still_compared,
                additions_of_a_request_are_kept_and_compared,
                erased_notes_are_gone_and_still_compared,
            }
            steps {
                a_step_writes_payment_attempt_timeline_and_events_together,
                a_history_is_of_one_moment_while_its_payment_goes_on,
                a_refused_step_leaves_nothing,
                the_same_step_at_once_is_done_once,
                an_unknown_payment_is_said_to_be_unknown,
                a_taken_reference_changes_nothing,
                an_attempt_is_found_by_id_reference_and_return_token,
                an_audit_line_is_written_only_with_a_step_that_was_done,
                accounts_are_in_use_while_money_can_move,
                secrets_of_an_attempt_come_back_and_can_be_erased,
            }
            pending_callbacks {
                a_pending_report_is_applied_when_its_reference_is_known,
                a_bare_pending_callback_makes_the_vendor_be_asked,
                a_pending_callback_lives_for_an_hour,
                a_callback_about_a_known_reference_is_not_kept,
                a_vendor_cannot_fill_the_store_with_callbacks,
            }
            due {
                what_is_due_is_claimed_once_in_order_of_time,
                a_lease_ends_by_release_or_by_time,
                a_step_moves_what_is_due,
                claims_at_once_share_nothing,
            }
            lists {
                pages_are_newest_first_and_whole_while_items_arrive,
                filters_hold_together,
                cursors_are_sealed_and_foreign_ones_refused,
                a_clock_that_goes_backwards_loses_nothing,
            }
            events {
                events_are_listed_newest_first_whether_an_endpoint_wants_them_or_not,
                events_are_those_that_were_asked_for_and_no_other_merchant_s,
                events_of_some_payments_are_listed_like_all_and_never_another_merchant_s,
            }
            search {
                payments_are_found_by_attempt_account_and_reference,
                what_a_filter_says_of_an_attempt_holds_of_one_attempt,
                references_for_searching_may_belong_to_many,
                payments_are_found_by_mailbox_amount_and_client_ref,
                payments_are_found_by_last_four_digits_and_by_disputes,
                ids_are_found_by_how_they_begin,
                a_period_is_listed_from_since_until_before_until,
                whatever_matches_is_found_however_much_does_not,
            }
            cluster {
                a_node_alone_tells_of_itself_and_has_all_there_is,
            }
            work {
                an_open_line_is_replaced_and_a_done_one_is_not,
                lines_are_marked_done_once,
            }
            refunds {
                refunds_of_all_the_money_at_once_make_one,
                the_same_order_at_once_is_written_once,
                an_order_under_a_used_key_with_other_data_differs,
                keys_of_refunds_are_one_space_per_merchant_and_environment,
                keys_of_refunds_are_separate_for_merchant_reseller_and_operators,
                a_reseller_refunds_only_its_payments_while_the_delegation_allows_it,
                only_a_usable_key_of_the_merchant_orders,
                a_refused_order_leaves_nothing,
                a_refund_is_found_by_its_id_and_its_event_tells_it,
                a_refund_of_a_sum_keeps_the_id_that_was_reported,
                a_refund_is_found_by_the_id_that_was_reported_before_its_order_answered,
                an_order_needs_its_line_open_and_closes_it,
                an_order_is_due_until_it_has_ended_and_survives,
            }
            movements {
                a_step_books_its_movements_and_a_repeated_report_books_nothing,
                movements_are_listed_by_booking_time_and_as_filtered,
                nothing_is_booked_in_a_closed_period,
                a_jump_of_the_clock_closes_nothing_until_it_is_confirmed,
                a_correction_is_booked_once,
                a_movement_without_a_payment_is_booked_once,
                unknown_money_is_listed_and_booked_once,
            }
            directory {
                merchants_are_counted_from_one,
                the_version_changes_with_keys_merchants_and_switches_alone,
                the_version_changes_with_endpoints_and_not_with_what_they_are_sent,
                a_merchant_is_replaced_only_as_it_was_read,
                an_operator_is_unknown_once_removed,
                an_operators_name_is_free_once_the_operator_is_removed,
                lines_of_the_audit_log_keep_the_operators_id,
                account_switches_are_kept,
                the_audit_log_is_an_unbroken_chain_at_any_concurrency,
            }
            keys {
                a_key_lives_from_issue_to_revocation,
                a_live_key_needs_an_approved_merchant,
                a_rotated_key_ends_and_its_successor_goes_on,
                keys_are_listed_by_owner_with_their_last_use,
            }
            endpoints {
                an_endpoint_lives_from_creation_to_deletion,
                an_owner_has_so_many_endpoints_in_each_environment,
                one_address_has_one_endpoint_of_a_merchant_in_an_environment,
                a_reseller_s_endpoints_are_apart_from_those_of_the_merchant_with_its_number,
                creations_at_once_of_one_address_have_one_winner,
                endpoints_and_deliveries_of_one_environment_are_listed_alone,
                secrets_of_an_endpoint_rotate_and_survive,
            }
            connects {
                an_exchange_makes_everything_and_is_done_once,
                exchanges_at_once_have_one_winner,
                a_code_dies_by_time_and_by_wrong_proofs,
                connecting_again_takes_the_place_of_the_exchange_before,
                connecting_again_tells_what_was_cancelled_and_who_has_to_end_the_rest,
                an_exchange_that_is_refused_leaves_nothing,
                codes_are_listed_until_a_day_after_their_end,
                an_exchange_does_not_make_a_second_endpoint_of_an_address,
            }
            deliveries {
                an_event_goes_to_each_endpoint_that_wants_it_then,
                a_reseller_hears_of_its_own_payments_alone,
                events_show_metadata_until_it_is_erased,
                a_reseller_hears_nothing_while_it_may_not_work_for_the_merchant,
                a_failed_attempt_goes_to_those_that_name_it_with_its_reason,
                a_payment_s_end_is_told_however_often_its_vendor_changes_its_mind,
                nothing_is_queued_where_nobody_wants_it,
                a_refused_step_queues_nothing,
                what_is_claimed_is_one_worker_s_until_its_lease_ends,
                claims_of_many_workers_share_nothing,
                a_failed_attempt_moves_the_delivery_and_is_logged,
                several_attempts_are_recorded_at_once,
                a_record_says_whether_the_delivery_ended_with_it,
                a_410_switches_the_endpoint_off_with_the_record,
                what_was_made_while_an_endpoint_was_off_is_queued_once,
                a_disabled_endpoint_holds_back_for_72_hours,
                a_deleted_endpoint_cancels_what_waits,
                a_test_goes_to_its_endpoint_whatever_it_wants,
                deliveries_are_found_by_payment_event_owner_time_and_failure,
                a_redelivery_is_a_new_delivery_of_the_same_event,
                what_failed_since_a_time_is_queued_again_once,
                what_waits_is_made_due_at_once_and_keeps_its_attempts,
                deliveries_are_listed_newest_first,
                what_is_pending_is_listed_however_much_has_arrived_since,
                whoever_delivers_hears_of_what_is_queued,
                deliveries_survive_and_what_was_claimed_is_due_again,
                waiting_endpoints_are_told_in_pages,
                the_oldest_is_told_however_many_wait,
                what_is_over_is_pruned_with_its_event,
            }
            nonces {
                of_many_who_ask_at_once_one_gets_a_nonce,
                a_nonce_is_taken_until_its_time_and_not_a_moment_longer,
                nonces_stay_taken_when_the_store_is_opened_again,
                a_reseller_has_so_many_nonces_at_once,
                nonces_that_are_over_go_without_any_traffic,
                a_clock_that_comes_back_frees_no_nonce,
            }
            retention {
                what_is_over_is_forgotten_when_its_time_has_passed,
                what_is_not_over_is_kept_and_looked_at_again,
                nothing_is_forgotten_where_it_is_kept_for_ever,
                much_is_forgotten_in_small_groups,
                pending_callbacks_go_without_any_traffic,
            }
            routing_log {
                decisions_come_back_newest_first_page_by_page,
                more_decisions_than_a_batch_holds_are_all_kept,
                decisions_are_kept_when_the_store_is_opened_again,
                decisions_are_forgotten_by_age_and_no_others,
                the_oldest_decisions_of_all_methods_go_where_the_log_is_too_large,
                a_log_that_is_kept_for_ever_is_not_forgotten,
                conversations_stand_in_the_log_beside_decisions,
            }
            trials {
                what_is_counted_under_each_share_adds_up,
                a_later_trial_takes_the_place_of_an_earlier_one,
                slots_are_counted_apart,
                what_is_added_at_once_is_all_counted,
                counts_are_kept_when_the_store_is_opened_again,
            }
            resellers {
                resellers_are_counted_from_one_and_not_rolled_out,
                a_key_needs_its_reseller,
                the_same_invitation_at_once_is_made_once,
                an_invitation_with_other_data_differs,
                only_a_usable_key_of_the_reseller_invites,
                an_invitation_is_accepted_with_a_code_once,
                an_invitation_is_accepted_once_at_any_concurrency,
                wrong_tries_are_kept_and_burn_the_code,
                codes_end_and_are_taken_away_by_later_ones,
                merchants_are_listed_with_what_became_of_them,
                an_operators_word_is_audited_with_what_was_before,
                one_reference_makes_one_payment_at_any_concurrency,
                a_payment_needs_key_delegation_rollout_and_approval,
                after_a_revocation_open_attempts_run_on_and_none_starts,
                a_resellers_payments_are_listed_while_more_arrive,
                what_resellers_have_survives,
            }
            survival {
                reopening_shows_everything,
                a_closed_store_takes_nothing,
                a_probe_is_written,
            }
        );
    };
    (@each $harness:expr; $($module:ident { $($name:ident),+ $(,)? })+) => { $(
        mod $module {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let harness = $harness;
                    if $crate::suite::Harness::is_available(&harness) {
                        $crate::suite::$module::$name(&harness).await;
                    } else {
                        eprintln!("NOT RUN: no PostgreSQL is installed, or only the long form has it");
                    }
                }
            )+
        }
    )+ };
}
