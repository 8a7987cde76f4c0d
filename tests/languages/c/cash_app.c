// Cash App in C: who works, takes the amount and costs least.
//
// The rule is that of klarna.mjs and cash_app.c alike; main.rs holds both against it. method.h is
// made of the WIT by wit-bindgen. What an answer holds is freed after the call, so it is allocated;
// the question is not freed, because the whole instance goes after the call.
#include "method.h"

#include <stdlib.h>
#include <string.h>

typedef exports_kassette_plugin_routing_context_t context_t;
typedef exports_kassette_plugin_routing_candidate_t candidate_t;
typedef exports_kassette_plugin_routing_verdict_t verdict_t;
typedef exports_kassette_plugin_routing_refusal_t refusal_t;

#define OPERATIONAL EXPORTS_KASSETTE_PLUGIN_ROUTING_AVAILABILITY_OPERATIONAL
#define DEGRADED EXPORTS_KASSETTE_PLUGIN_ROUTING_AVAILABILITY_DEGRADED
#define GROUND(NAME) EXPORTS_KASSETTE_PLUGIN_ROUTING_GROUND_##NAME

// A text that grows, for the operator.
typedef struct {
    char bytes[120];
    size_t length;
} text_t;

static void put(text_t *text, const char *more) {
    for (; *more && text->length < sizeof text->bytes; more++) text->bytes[text->length++] = *more;
}

static void put_number(text_t *text, uint64_t number) {
    char digits[21] = {0};
    size_t at = sizeof digits - 1;
    do digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    put(text, digits + at);
}

static method_string_t finish(const text_t *text) {
    method_string_t string;
    method_string_dup_n(&string, text->bytes, text->length);
    return string;
}

void exports_kassette_plugin_routing_describe(exports_kassette_plugin_routing_description_t *method) {
    memset(method, 0, sizeof *method); // no translations, no icon, no settings
    method_string_dup(&method->id, "cash_app");
    method_string_dup(&method->label, "Cash App");
    method_string_dup(&method->version, "1.0.0");
    method->currencies.ptr = malloc(sizeof(method_string_t));
    method->currencies.len = 1;
    method_string_dup(&method->currencies.ptr[0], "USD");
}

// There are none to judge.
bool exports_kassette_plugin_routing_check_settings(
    exports_kassette_plugin_routing_list_setting_t *settings, method_string_t *why) {
    (void)settings, (void)why;
    return true;
}

// Whether something stands in a candidate's way, and what.
static bool obstacle(const candidate_t *candidate, const context_t *context, refusal_t *why) {
    text_t text = {0};
    if (candidate->health.status > DEGRADED) {
        put(&text, "it does not work at the moment");
        why->ground = GROUND(HEALTH);
    } else if (!context->amount.is_some) {
        return false; // the payer only browses
    } else if (candidate->minimum.is_some && context->amount.val < candidate->minimum.val) {
        put(&text, "below ");
        put_number(&text, candidate->minimum.val);
        why->ground = GROUND(AMOUNT);
    } else if (candidate->maximum.is_some && context->amount.val > candidate->maximum.val) {
        put(&text, "above ");
        put_number(&text, candidate->maximum.val);
        why->ground = GROUND(AMOUNT);
    } else {
        return false;
    }
    why->detail = finish(&text);
    return true;
}

static int compare_text(const method_string_t *a, const method_string_t *b) {
    size_t shorter = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->ptr, b->ptr, shorter);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int better(const void *left, const void *right) {
    const candidate_t *a = *(const candidate_t *const *)left, *b = *(const candidate_t *const *)right;
    uint64_t a_fee = a->fee.is_some ? a->fee.val : UINT64_MAX;
    uint64_t b_fee = b->fee.is_some ? b->fee.val : UINT64_MAX;
    if (a->health.status != b->health.status) return a->health.status < b->health.status ? -1 : 1;
    if (a_fee != b_fee) return a_fee < b_fee ? -1 : 1;
    return compare_text(&a->id, &b->id);
}

static void explain(const candidate_t *candidate, size_t place, method_string_t *reason) {
    text_t text = {0};
    put_number(&text, place);
    put(&text, candidate->health.status == OPERATIONAL ? ": operational, fee " : ": degraded, fee ");
    if (candidate->fee.is_some) put_number(&text, candidate->fee.val);
    else put(&text, "unknown");
    *reason = finish(&text);
}

bool exports_kassette_plugin_routing_rank(context_t *context,
                                          exports_kassette_plugin_routing_list_verdict_t *verdicts,
                                          refusal_t *refused) {
    // Only where it is known: absence is normal.
    if (context->country.is_some &&
        (context->country.val.len != 2 || memcmp(context->country.val.ptr, "US", 2) != 0)) {
        refused->ground = GROUND(COUNTRY);
        method_string_dup(&refused->detail, "Cash App is used in the United States");
        return false;
    }
    size_t count = context->candidates.len, works = 0, no = count;
    verdict_t *answer = malloc((count + 1) * sizeof *answer);
    const candidate_t **eligible = malloc((count + 1) * sizeof *eligible);
    if (!answer || !eligible) abort();
    for (size_t at = 0; at < count; at++) {
        candidate_t *candidate = &context->candidates.ptr[at];
        refusal_t why;
        if (obstacle(candidate, context, &why)) {
            verdict_t *verdict = &answer[--no];
            verdict->id = candidate->id;
            verdict->outcome.is_err = true;
            verdict->outcome.val.err = why;
        } else {
            eligible[works++] = candidate;
        }
    }
    qsort(eligible, works, sizeof *eligible, better);
    for (size_t at = 0; at < works; at++) {
        answer[at].id = eligible[at]->id;
        answer[at].outcome.is_err = false;
        explain(eligible[at], at + 1, &answer[at].outcome.val.ok);
    }
    verdicts->ptr = answer;
    verdicts->len = count;
    return true;
}
