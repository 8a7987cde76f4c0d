# Ce citesc plătitorii, în română.

## Pe fiecare pagină

test-banner = TEST
test-banner-text = Aceasta este o plată de test. Nu se transferă bani reali.
footer-reassurance = Datele cardului și ale contului bancar le introduceți doar la furnizorul de plăți. Ele nu ajung niciodată pe această pagină.
footer-brand = Pagină de plată Kassette
opens-new-tab = (se deschide într-o filă nouă)
language-menu = Limba
summary-pay = Plătiți către { $merchant }
summary-paid = Ați plătit către { $merchant }
summary-about = Plată către { $merchant }
summary-order = Comandă
support = Întrebări despre comandă?

## Alegerea

choose-title = Plătiți { $amount } către { $merchant }
choose-heading = Cum doriți să plătiți?
choose-heading-again = Cum doriți să plătiți acum?
choose-hint = Prin alegere nu se încasează încă nimic. Finalizați plata în pașii următori.
choose-with = Continuați cu { $method }
choose-declined = Ultima încercare a fost refuzată.
choose-down = Nu este disponibilă timp de aproximativ un minut, deoarece { $provider } nu răspunde.
choose-via = prin { $provider }
choose-more = Mai multe despre { $provider }
changed-title = Vă rugăm să mai verificați o dată
changed-text = { $method } ar trece acum prin { $provider }, în condițiile de mai jos. Continuați dacă sunteți de acord.
changed-continue = Continuați prin { $provider }
changed-other = Vedeți toate metodele de plată

## Către furnizor

going-title = Vă redirecționăm către { $provider } …
going-text = Acolo plătiți { $amount }, apoi reveniți aici.
go-text-stuck = Dacă nu se întâmplă nimic, folosiți butonul.
go-link = Continuați la { $provider }
open-title = Plata vă așteaptă
open-text = Ați ales { $method } prin { $provider }. Continuați acolo pentru a plăti.
post-title = Continuați la { $provider }
post-text = Plata este pregătită. Butonul vă duce la { $provider }, unde o confirmați.
another-way = Alegeți altă metodă de plată
another-way-hint = Mai întâi închidem plata prin { $provider }, ca să nu plătiți niciodată de două ori.
lapsed-title = A durat puțin prea mult
lapsed-text = Timpul pentru a plăti prin { $provider } a expirat. Dacă ați plătit deja, nu plătiți din nou: această pagină vă arată plata de îndată ce ne este comunicată.

## Întrebări

questions-title = Câteva date pentru { $provider }
questions-text = { $provider } are nevoie de acestea pentru a primi plata. Le transmitem doar pentru această plată.
questions-submit = Continuați
question-optional = opțional
question-choose = Alegeți
question-email = Adresă de e-mail
question-phone = Număr de telefon
question-given-name = Prenume
question-family-name = Nume de familie
error-summary = Vă rugăm să verificați răspunsurile marcate.
error-required = Vă rugăm să completați acest câmp.
error-email = Vă rugăm să introduceți o adresă de e-mail, de exemplu nume@example.org.
error-phone = Vă rugăm să introduceți un număr de telefon cu prefixul țării, de exemplu +40 21 123 4567.
error-length = Vă rugăm să folosiți cel mult { $most } caractere.
error-choice = Vă rugăm să alegeți una dintre opțiuni.
error-characters = Vă rugăm să folosiți doar litere, cifre și semne de punctuație obișnuite.
error-card = Vă rugăm să nu introduceți aici un număr de card.

## Instrucțiuni

show-title = Plătiți cu { $method }
show-details = Datele plății
show-details-hint = Faceți clic sau atingeți o valoare pentru a o selecta în întregime.
copy = Copiați
show-qr = Cod QR pentru aplicația băncii sau portofelul digital; conține datele de plată de pe această pagină
show-link = Deschideți aplicația
show-page = Deschideți pagina de plată
show-left = Timp rămas pentru plată: { $time }
show-paid = Am plătit – verificați acum

## Starea unei plăți

completed-title = Plată finalizată
completed-text = Vă mulțumim. Ați plătit { $amount } către { $merchant }.
completed-test = Acesta a fost un test. Nimănui nu i s-a debitat nimic.
receipt-date = Data
receipt-method = Metoda de plată
receipt-by = { $method }, prin { $provider }
receipt-reference = Referință
receipt-payee = Plătit către
receipt-paid = Suma plătită
receipt-refunded = Restituit la { $day }
receipt-rest = Plătit după restituiri
receipt-keep = Pentru a păstra o copie, tipăriți această pagină sau salvați-o ca PDF. Confirmă plata și nu este o factură.
completed-part-returned = Din aceasta s-au restituit { $amount }.
completed-disputed = Această plată este contestată la furnizorul de plăți.
second-received = Pentru această comandă s-a mai primit o plată. Vă rugăm să întrebați la { $merchant }.
second-part-given-back = Pentru această comandă s-a mai primit o plată, din care o parte a fost restituită. Vă rugăm să întrebați la { $merchant } despre rest.
second-given-back = Pentru această comandă s-a mai primit o plată, care a fost restituită.
accepted-text = { $merchant } a acceptat această plată ca fiind achitată.
returned-title = Banii v-au fost restituiți
returned-text = Ați plătit { $amount } către { $merchant }, iar suma a fost restituită.
money-received = Totuși, pentru ea s-au primit bani. Vă rugăm să nu plătiți din nou și să întrebați la { $merchant }.
money-part-given-back = Totuși, pentru ea s-au primit bani, iar o parte a fost restituită. Vă rugăm să nu plătiți din nou și să întrebați la { $merchant } despre rest.
money-given-back = Banii primiți pentru ea au fost restituiți. Dacă mai doriți să plătiți, vă rugăm să începeți din nou la { $merchant }.
money-unclear = Nu este sigur dacă a fost debitată vreo sumă. Vă rugăm să nu plătiți din nou și să întrebați la { $merchant }.
processing-title = Plata se procesează
processing-text = De obicei durează doar o clipă. Nu trebuie să faceți nimic.
verification-title = Se așteaptă confirmarea finală
verification-text = Plata a ajuns și este în curs de confirmare. Poate dura puțin. Puteți închide această pagină; { $merchant } va fi anunțat.
verification-awaited = Așteptăm ca { $provider } să vă confirme plata. Vă rugăm să nu plătiți din nou. Puteți închide această pagină; { $merchant } va fi anunțat.
review-title = Plata este în curs de verificare
review-text = O persoană o verifică înainte de a fi executată. Vă rugăm să nu plătiți din nou. { $merchant } va afla rezultatul.
review-part-given-back = O parte din banii primiți a fost restituită.
review-given-back = Banii primiți au fost restituiți.
failed-title = Această plată nu a reușit
failed-text = Nu a fost debitată nicio sumă. Pentru a încerca din nou, vă rugăm să începeți o plată nouă la { $merchant }.
cancelled-title = Această plată a fost anulată
cancelled-text = Nu a fost debitată nicio sumă. Dacă mai doriți să plătiți, vă rugăm să începeți din nou la { $merchant }.
expired-title = Această plată a expirat
expired-text = Nu a fost achitată la timp și nu a fost debitată nicio sumă. Dacă mai doriți să plătiți, vă rugăm să începeți din nou la { $merchant }.
expired-late = Dacă ați plătit chiar înainte, nu plătiți din nou și întrebați la { $merchant }. O plată care mai ajunge va fi verificată.
checking-title = O clipă, vă rugăm
checking-text = { $provider } nu a răspuns încă. Lămurim acest lucru înainte de orice altceva, ca să nu plătiți niciodată de două ori.
checking-retry = Întrebați din nou
waiting-title = Se așteaptă { $provider }
waiting-text = De îndată ce { $provider } vă confirmă plata, o vedeți aici. Nu ați terminat încă? Puteți continua.
waiting-declined = Ultima încercare prin { $provider } a fost refuzată. Puteți încerca acolo din nou. Alt mod de plată poate fi ales după ce { $provider } anunță că încercarea s-a încheiat.
declined-title = Plata a fost refuzată
ended-title = Încă nu ați plătit
ended-text = Plata prin { $provider } s-a încheiat și nu a fost debitată nicio sumă.
try-again = Puteți încerca din nou sau alege altă metodă.
pay-in-shop = Dacă mai doriți să plătiți, vă rugăm să începeți din nou la { $merchant }.
choose-again = Alegeți cum plătiți
see-current = Vedeți plata
direct-title = Vă rugăm să continuați în magazin
direct-text = Această plată este inițiată de { $merchant }. Reveniți în magazin și alegeți plata acolo.
unavailable-title = Acum nu se poate plăti
unavailable-text = Pentru această sumă nu este disponibilă momentan nicio metodă de plată. Vă rugăm să încercați mai târziu sau să întrebați la { $merchant }.
back-to-merchant = Înapoi la magazin
back-soon = În câteva secunde reveniți automat la { $merchant }.
stay = Rămâneți pe această pagină
close-page = Acum puteți închide această pagină.
updates-itself = Această pagină se actualizează singură.
updates-pause = Întrerupeți
updates-paused = Actualizarea este întreruptă.
check-again = Verificați din nou

## Mesaje după o alegere

notice-still-open = Plata prin { $provider } nu a putut fi închisă cu certitudine. Ca să nu plătiți niciodată de două ori, vă rugăm să o continuați sau să încercați din nou peste puțin timp.
notice-not-available = Această metodă de plată nu mai este disponibilă.
choose-another = Vă rugăm să alegeți alta.
not-taken = Pentru această încercare nu a fost debitată nicio sumă.
one-try-left = A mai rămas o încercare: alegeți o metodă de plată care probabil va funcționa.
declined-funds = Plata a fost refuzată: fonduri insuficiente.
advice-funds = Folosiți alt card sau altă metodă de plată, ori întrebați banca despre sold și limită.
declined-expired = Plata a fost refuzată: cardul a expirat.
advice-expired = Folosiți alt card sau verificați data introdusă.
declined-authentication = Banca nu a putut confirma că sunteți dumneavoastră.
advice-authentication = Încercați din nou și confirmați în aplicația băncii sau alegeți altă metodă de plată.
declined-limit = Plata a fost refuzată: suma depășește o limită.
advice-limit = Cereți băncii să mărească limita sau alegeți altă metodă de plată.
declined-bank = Plata a fost refuzată fără indicarea motivului.
advice-bank = Poate că banca vă spune motivul. Folosiți alt card sau alegeți altă metodă de plată.
declined-cancelled = Ați anulat plata.
declined-provider = { $provider } nu a acceptat plata.
down-title = { $provider } nu răspunde în acest moment.
down-text = Plata nu a fost începută acolo și nu a fost debitată nicio sumă.
advice-down = Alegeți altă metodă sau verificați din nou peste un minut.
notice-forbidden = Momentan nu se pot începe plăți către { $merchant }.
notice-conflict = Acest lucru nu mai este posibil. Aceasta este starea actuală a plății.
notice-unsettled = Furnizorul nu a răspuns încă. Vă rugăm să așteptați o clipă.
notice-choose = Vă rugăm să alegeți una dintre metodele de plată.

## Când ceva nu este în regulă

not-found-title = Nu cunoaștem acest link de plată
not-found-text = Vă rugăm să verificați dacă adresa este completă sau să reveniți în magazin și să începeți din nou de acolo.
foreign-title = Vă rugăm să folosiți butoanele paginii noastre
foreign-text = Această cerere nu a venit de pe pagina noastră de plată, așa că nu s-a întâmplat nimic. Deschideți din nou linkul de plată și continuați de acolo.
too-large-title = Textul a fost prea lung
too-large-text = Nu s-a întâmplat nimic. Vă rugăm să reveniți și să scurtați ce ați scris.
unreadable-title = Nu am putut citi acest lucru
unreadable-text = Nu s-a întâmplat nimic. Vă rugăm să reveniți și să încercați din nou.
failure-title = Ceva nu a mers bine la noi
failure-text = Vă rugăm să așteptați o clipă și să deschideți din nou linkul de plată. Între timp nu începeți o a doua plată.
too-many-requests = Prea multe cereri din rețeaua dumneavoastră. Așteptați o clipă și deschideți din nou linkul de plată.
busy = Foarte multe persoane plătesc chiar acum. Așteptați o clipă și deschideți din nou linkul de plată.
open-payment = Deschideți plata

## Invitații de la revânzători

open-invitation = Deschideți invitația
no-invitation-title = Nu cunoaștem această invitație
no-invitation-text = Vă rugăm să verificați dacă adresa este completă sau să întrebați expeditorul.
invitation-foreign-text = Această cerere nu a venit de pe pagina noastră, așa că nu s-a întâmplat nimic. Deschideți din nou invitația și continuați de acolo.
invitation-title = { $reseller } dorește să încaseze plăți pentru dumneavoastră
invitation-text = Dacă acceptați, { $reseller } poate crea plăți pentru { $business } și vă poate trimite clienții să plătească.
invitation-yours = Plățile și banii sunt ai dumneavoastră: se aplică propriile setări și limite și sunteți anunțat despre fiecare plată. Puteți retrage acordul oricând.
invitation-code = Cod de consimțământ
invitation-code-hint = Îl primiți de la operatorul acestui serviciu, nu de la cel care vă invită. Începe cu km_, este valabil 24 de ore și funcționează o singură dată. Nu îl dați nimănui.
invitation-accept = Accept
invitation-decline = Refuz
invitation-until = Puteți răspunde până la { $date } (UTC).
invitation-footer = Pentru a accepta este nevoie de codul de consimțământ. Doar cu această adresă invitația poate fi numai refuzată.
invitation-authorized-title = Ați acceptat
invitation-authorized-text = { $reseller } poate crea acum plăți pentru { $business }. Pentru a retrage acordul, adresați-vă operatorului acestui serviciu.
invitation-declined-title = Această invitație a fost refuzată
invitation-declined-text = { $reseller } nu poate face nimic în numele dumneavoastră pe baza ei.
invitation-expired-title = Această invitație a expirat
invitation-expired-text = S-a putut răspunde timp de 30 de zile. Dacă mai doriți să acceptați, cereți una nouă de la { $reseller }.
invitation-revoked-title = Acordul a fost retras
invitation-revoked-text = { $reseller } nu mai poate crea plăți pentru dumneavoastră.
invitation-error-missing = Vă rugăm să introduceți codul de consimțământ.
invitation-error-wrong = Acest cod este greșit, folosit sau nu mai este valabil. După cinci încercări greșite aveți nevoie de unul nou.
invitation-notice-decide = Vă rugăm să apăsați „Accept” sau „Refuz”.

## Furnizori

provider-unnamed = furnizorul de plăți
