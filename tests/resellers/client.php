<?php
// A reseller's client of Kassette. PHP 8.1 or newer, no packages.
//
//     KASSETTE_RESELLER_KEY=kr_live_... php client.php BASE_URL METHOD TARGET [BODY]
//
// TARGET is path and query, as in /api/v1/reseller/payments?merchant_id=1. Prints the status and, on the
// lines after it, the answer's body.

declare(strict_types=1);

// -- sign
/** The headers of one request. Sign again for each try: a nonce is good for one. */
function sign(string $key, string $method, string $target, string $body): array
{
    $timestamp = (string) time();
    $nonce = bin2hex(random_bytes(16));
    $lines = [$method, $target, $timestamp, $nonce, hash('sha256', $body)];
    $signature = hash_hmac('sha256', implode("\n", $lines), $key);
    return [
        "Authorization: Bearer $key",
        "X-Service-Timestamp: $timestamp",
        "X-Service-Nonce: $nonce",
        "X-Service-Signature: $signature",
    ];
}
// -- end

const TRIES = 4;

/**
 * Status and body of the answer. Tries again where it is not known what became of a try, or where the
 * server asks for it: the body is the same, and so its client_ref, so nothing is done twice.
 */
function call(string $base, string $key, string $method, string $target, string $body): array
{
    $failure = 'no try was made';
    for ($attempt = 0; $attempt < TRIES; $attempt++) {
        if ($attempt > 0) {
            usleep(250_000 * 2 ** $attempt);
        }
        $headers = sign($key, $method, $target, $body);
        if ($body !== '') {
            $headers[] = 'Content-Type: application/json';
        }
        $context = stream_context_create(['http' => [
            'method' => $method,
            'header' => $headers,
            'content' => $body,
            'protocol_version' => 1.1,
            'ignore_errors' => true, // errors have a body too
            'follow_location' => 0,
            'timeout' => 30,
        ]]);
        $stream = @fopen($base . $target, 'r', false, $context);
        if ($stream === false) {
            $failure = error_get_last()['message'] ?? 'no answer';
            continue;
        }
        $answer = stream_get_contents($stream);
        $status = (int) explode(' ', stream_get_meta_data($stream)['wrapper_data'][0])[1];
        if ($status < 500 && $status !== 429) {
            return [$status, $answer];
        }
        $failure = "the server answered $status: $answer";
    }
    throw new RuntimeException($failure);
}

[, $base, $method, $target] = $argv;
[$status, $answer] = call($base, getenv('KASSETTE_RESELLER_KEY'), $method, $target, $argv[4] ?? '');
echo "$status\n$answer\n";
