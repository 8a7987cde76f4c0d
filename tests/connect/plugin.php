<?php
// A shop plugin's side of the connect exchange, without a shop.
//
//   KASSETTE_SHOP=FOLDER php -S 127.0.0.1:8090 plugin.php
//       serves the site, which answers the payment server's challenge.
//   echo CODE | KASSETTE_SHOP=FOLDER php plugin.php https://pay.example https://shop.example
//       connects the site and prints the server's response.
//
// A real plugin stores the contents of FOLDER in its options, and reads the code from a form that only
// the shop's administrator can open.

declare(strict_types=1);

// -- connect
/** Scheme, lower-case host and a port that is not the default one: what the proof is made over. */
function kassette_origin(string $site_url): string
{
    $parts = parse_url($site_url);
    $scheme = strtolower($parts['scheme']);
    $host = strtolower($parts['host']);
    if (preg_match('/[^\x21-\x7e]/', $host)) {
        $host = idn_to_ascii($host, IDNA_DEFAULT, INTL_IDNA_VARIANT_UTS46);
    }
    $default = ['https' => 443, 'http' => 80][$scheme];
    $port = $parts['port'] ?? $default;
    return "$scheme://$host" . ($port === $default ? '' : ":$port");
}

/**
 * Exchanges a one-time code; answers status and body. `$publish(challenge, proof)` has the site answer
 * GET /.well-known/kassette-connect/{challenge} with exactly the proof before this goes on.
 */
function kassette_connect(string $server, string $code, string $site_url, callable $publish): array
{
    $challenge = bin2hex(random_bytes(32));
    $proof = hash_hmac('sha256', $challenge . "\n" . kassette_origin($site_url), $code);
    $publish($challenge, $proof);
    $request = [
        'method' => 'POST',
        'header' => 'Content-Type: application/json',
        'content' => json_encode([
            'code' => $code,
            'site_url' => $site_url,
            'challenge' => $challenge,
            'proof' => $proof,
        ], JSON_UNESCAPED_SLASHES | JSON_THROW_ON_ERROR),
        'timeout' => 30,
        'follow_location' => 0,
        'ignore_errors' => true,
    ];
    $url = "$server/api/v1/connect/exchange";
    $body = file_get_contents($url, false, stream_context_create(['http' => $request]));
    if ($body === false) {
        throw new RuntimeException('the payment server does not answer');
    }
    $status = (int) explode(' ', $http_response_header[0])[1];
    return [$status, json_decode($body, true, 16, JSON_THROW_ON_ERROR)];
}
// -- end

$folder = getenv('KASSETTE_SHOP') ?: '.';

if (PHP_SAPI === 'cli-server') {
    $path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
    $found = preg_match('#^/\.well-known/kassette-connect/([A-Za-z0-9_-]{32,128})$#D', $path, $match);
    $kept = $found ? @file_get_contents("$folder/$match[1].proof") : false;
    header('Content-Type: text/plain');
    header('Cache-Control: no-store');
    http_response_code($kept === false ? 404 : 200);
    echo $kept === false ? 'nothing is being connected' : $kept;
    return true;
}

[, $server, $site_url] = $argv;
$publish = static function (string $challenge, string $proof) use ($folder): void {
    file_put_contents("$folder/$challenge.proof", $proof);
};
[$status, $answer] = kassette_connect($server, trim(fgets(STDIN)), $site_url, $publish);
array_map('unlink', glob("$folder/*.proof"));
echo json_encode(['status' => $status, 'answer' => $answer], JSON_UNESCAPED_SLASHES), "\n";
exit($status === 200 ? 0 : 1);
