# Co czytają płacący, po polsku.

## Na każdej stronie

test-banner = TEST
test-banner-text = To jest płatność testowa. Żadne prawdziwe pieniądze nie są pobierane.
footer-reassurance = Dane karty i konta podajesz wyłącznie u operatora płatności. Nigdy nie trafiają na tę stronę.
footer-brand = Strona płatności Kassette
opens-new-tab = (otwiera się w nowej karcie)
language-menu = Język
summary-pay = Do zapłaty dla { $merchant }
summary-paid = Zapłacono: { $merchant }
summary-about = Płatność dla { $merchant }
summary-order = Zamówienie
support = Masz pytania dotyczące zamówienia?

## Wybór

choose-title = Zapłać { $amount } – { $merchant }
choose-heading = Jak chcesz zapłacić?
choose-heading-again = Jak chcesz teraz zapłacić?
choose-hint = Samo wybranie metody nie powoduje pobrania pieniędzy. Płatność dokończysz w kolejnych krokach.
choose-with = Kontynuuj: { $method }
choose-declined = Ostatnia próba została odrzucona.
choose-down = Niedostępne przez około minutę, ponieważ { $provider } nie odpowiada.
choose-via = przez { $provider }
choose-more = Więcej informacji: { $provider }
changed-title = Prosimy spojrzeć jeszcze raz
changed-text = { $method }: płatność odbyłaby się teraz przez { $provider }, na poniższych warunkach. Jeśli się zgadzasz, kontynuuj.
changed-continue = Kontynuuj przez { $provider }
changed-other = Zobacz wszystkie metody płatności

## Do operatora

going-title = Przekierowanie do { $provider } …
going-text = Tam zapłacisz { $amount }, a potem wrócisz tutaj.
go-text-stuck = Jeśli nic się nie dzieje, użyj przycisku.
go-link = Przejdź do { $provider }
open-title = Twoja płatność czeka
open-text = Wybrana metoda: { $method } przez { $provider }. Przejdź tam, aby zapłacić.
post-title = Przejście do { $provider }
post-text = Twoja płatność jest przygotowana. Przycisk przeniesie Cię do { $provider }, gdzie ją potwierdzisz.
another-way = Wybierz inną metodę płatności
another-way-hint = Najpierw zamkniemy płatność przez { $provider }, aby nigdy nie zapłacić dwa razy.
lapsed-title = Trwało to trochę za długo
lapsed-text = Czas na zapłatę przez { $provider } minął. Jeśli płatność została już wykonana, nie płać ponownie: ta strona pokaże ją, gdy tylko otrzymamy potwierdzenie.

## Pytania

questions-title = Kilka danych dla { $provider }
questions-text = Te dane są potrzebne do przyjęcia Twojej płatności przez { $provider }. Przekazujemy je tylko na potrzeby tej płatności.
questions-submit = Dalej
question-optional = opcjonalnie
question-choose = Wybierz
question-email = Adres e-mail
question-phone = Numer telefonu
question-given-name = Imię
question-family-name = Nazwisko
error-summary = Sprawdź zaznaczone odpowiedzi.
error-required = Wypełnij to pole.
error-email = Podaj adres e-mail, na przykład imie@example.org.
error-phone = Podaj numer telefonu z kodem kraju, na przykład +48 22 123 45 67.
error-length = Użyj najwyżej { $most } znaków.
error-choice = Wybierz jedną z opcji.
error-characters = Użyj tylko liter, cyfr i zwykłych znaków interpunkcyjnych.
error-card = Nie podawaj tutaj numeru karty.

## Instrukcje

show-title = Zapłać: { $method }
show-details = Dane do płatności
show-details-hint = Kliknij lub dotknij wartości, aby zaznaczyć ją w całości.
copy = Kopiuj
show-qr = Kod QR dla aplikacji bankowej lub portfela; zawiera dane do płatności z tej strony
show-link = Otwórz aplikację
show-page = Otwórz stronę płatności
show-left = Pozostały czas na zapłatę: { $time }
show-paid = Zapłacone – sprawdź teraz

## Stan płatności

completed-title = Płatność zakończona
completed-text = Dziękujemy. Zapłacono { $amount }, odbiorca: { $merchant }.
completed-test = To był test. Nikt nie został obciążony.
receipt-date = Data
receipt-method = Metoda płatności
receipt-by = { $method }, przez { $provider }
receipt-reference = Numer referencyjny
receipt-payee = Odbiorca
receipt-paid = Zapłacona kwota
receipt-refunded = Zwrócono { $day }
receipt-rest = Zapłacono po zwrotach
receipt-keep = Aby zachować kopię, wydrukuj tę stronę lub zapisz ją jako PDF. Potwierdza ona płatność i nie jest fakturą.
completed-part-returned = Z tej kwoty zwrócono { $amount }.
completed-disputed = Ta płatność jest przedmiotem reklamacji u operatora płatności.
second-received = Za to zamówienie wpłynęła jeszcze jedna płatność. Skontaktuj się w tej sprawie z { $merchant }.
second-part-given-back = Za to zamówienie wpłynęła jeszcze jedna płatność, a jej część została zwrócona. W sprawie reszty skontaktuj się z { $merchant }.
second-given-back = Za to zamówienie wpłynęła jeszcze jedna płatność, która została zwrócona.
accepted-text = { $merchant } uznaje tę płatność za zapłaconą.
returned-title = Twoje pieniądze zostały zwrócone
returned-text = Zapłacono { $amount }, odbiorca: { $merchant }. Ta kwota została zwrócona.
money-received = Wpłynęły jednak za nią pieniądze. Nie płać ponownie i skontaktuj się z { $merchant }.
money-part-given-back = Wpłynęły jednak za nią pieniądze, a część z nich została zwrócona. Nie płać ponownie, a w sprawie reszty skontaktuj się z { $merchant }.
money-given-back = Pieniądze, które za nią wpłynęły, zostały zwrócone. Jeśli nadal chcesz zapłacić, zacznij od nowa w { $merchant }.
money-unclear = Nie ma pewności, czy pieniądze zostały pobrane. Nie płać ponownie i skontaktuj się z { $merchant }.
processing-title = Twoja płatność jest przetwarzana
processing-text = Zwykle trwa to tylko chwilę. Nie musisz nic robić.
verification-title = Oczekiwanie na ostateczne potwierdzenie
verification-text = Twoja płatność wpłynęła i jest potwierdzana. To może chwilę potrwać. Możesz zamknąć tę stronę; { $merchant } otrzyma powiadomienie.
verification-awaited = Czekamy na potwierdzenie płatności od { $provider }. Nie płać ponownie. Możesz zamknąć tę stronę; { $merchant } otrzyma powiadomienie.
review-title = Twoja płatność jest sprawdzana
review-text = Zanim zostanie zrealizowana, sprawdzi ją człowiek. Nie płać ponownie. { $merchant } otrzyma wynik.
review-part-given-back = Część otrzymanych pieniędzy została zwrócona.
review-given-back = Otrzymane pieniądze zostały zwrócone.
failed-title = Ta płatność nie doszła do skutku
failed-text = Nie pobrano żadnych pieniędzy. Aby spróbować ponownie, rozpocznij nową płatność w { $merchant }.
cancelled-title = Ta płatność została anulowana
cancelled-text = Nie pobrano żadnych pieniędzy. Jeśli nadal chcesz zapłacić, zacznij od nowa w { $merchant }.
expired-title = Ta płatność wygasła
expired-text = Nie została opłacona na czas i nie pobrano żadnych pieniędzy. Jeśli nadal chcesz zapłacić, zacznij od nowa w { $merchant }.
expired-late = Jeśli płatność została wykonana tuż przed końcem, nie płać ponownie i skontaktuj się z { $merchant }. Spóźniona wpłata zostanie sprawdzona.
checking-title = Chwileczkę
checking-text = Nie mamy jeszcze odpowiedzi od { $provider }. Najpierw to wyjaśnimy, aby nigdy nie zapłacić dwa razy.
checking-retry = Zapytaj ponownie
waiting-title = Czekamy na potwierdzenie od { $provider }
waiting-text = Gdy tylko otrzymamy potwierdzenie płatności od { $provider }, zobaczysz je tutaj. Płatność nie jest jeszcze dokończona? Możesz kontynuować.
waiting-declined = Ostatnia próba przez { $provider } została odrzucona. Możesz tam spróbować ponownie. Inny sposób można wybrać, gdy { $provider } zgłosi, że próba się zakończyła.
declined-title = Płatność została odrzucona
ended-title = Jeszcze nie zapłacono
ended-text = Płatność przez { $provider } została zakończona i nie pobrano żadnych pieniędzy.
try-again = Możesz spróbować ponownie lub wybrać inną metodę.
pay-in-shop = Jeśli nadal chcesz zapłacić, zacznij od nowa w { $merchant }.
choose-again = Wybierz metodę płatności
see-current = Zobacz płatność
direct-title = Kontynuuj w sklepie
direct-text = Tę płatność rozpoczyna { $merchant }. Wróć do sklepu i tam wybierz płatność.
unavailable-title = Płatność nie jest teraz możliwa
unavailable-text = Dla tej kwoty nie ma w tej chwili dostępnej metody płatności. Spróbuj później lub skontaktuj się z { $merchant }.
back-to-merchant = Wróć do sklepu
back-soon = Za kilka sekund nastąpi automatyczny powrót do { $merchant }.
stay = Zostań na tej stronie
close-page = Możesz teraz zamknąć tę stronę.
updates-itself = Ta strona odświeża się sama.
updates-pause = Wstrzymaj
updates-paused = Odświeżanie jest wstrzymane.
check-again = Sprawdź ponownie

## Komunikaty po wyborze

notice-still-open = Nie udało się z całą pewnością zamknąć płatności przez { $provider }. Aby nigdy nie zapłacić dwa razy, dokończ ją lub spróbuj ponownie za chwilę.
notice-not-available = Ta metoda płatności nie jest już dostępna.
choose-another = Wybierz inną.
not-taken = Za tę próbę nie pobrano żadnych pieniędzy.
one-try-left = Pozostała jedna próba: wybierz metodę płatności, która prawdopodobnie zadziała.
declined-funds = Płatność została odrzucona: brak wystarczających środków.
advice-funds = Użyj innej karty lub metody płatności albo zapytaj bank o saldo i limit.
declined-expired = Płatność została odrzucona: karta straciła ważność.
advice-expired = Użyj innej karty lub sprawdź wpisaną datę.
declined-authentication = Twój bank nie mógł potwierdzić, że to Ty.
advice-authentication = Spróbuj ponownie i potwierdź w aplikacji banku albo wybierz inną metodę płatności.
declined-limit = Płatność została odrzucona: kwota przekracza limit.
advice-limit = Poproś bank o podniesienie limitu albo wybierz inną metodę płatności.
declined-bank = Płatność została odrzucona bez podania przyczyny.
advice-bank = Bank może znać przyczynę. Użyj innej karty albo wybierz inną metodę płatności.
declined-cancelled = Płatność została przez Ciebie anulowana.
declined-provider = Płatność przez { $provider } nie została przyjęta.
down-title = { $provider } w tej chwili nie odpowiada.
down-text = Płatność nie została tam rozpoczęta i nie pobrano żadnych pieniędzy.
advice-down = Wybierz inną metodę albo sprawdź ponownie za minutę.
notice-forbidden = W tej chwili nie można rozpocząć płatności dla { $merchant }.
notice-conflict = To już nie jest możliwe. Oto obecny stan Twojej płatności.
notice-unsettled = Nie mamy jeszcze odpowiedzi od operatora. Poczekaj chwilę.
notice-choose = Wybierz jedną z metod płatności.

## Gdy coś jest nie tak

not-found-title = Nie znamy tego linku do płatności
not-found-text = Sprawdź, czy adres jest kompletny, albo wróć do sklepu i zacznij tam od nowa.
foreign-title = Użyj przycisków na naszej stronie
foreign-text = To żądanie nie pochodziło z naszej strony płatności, więc nic się nie stało. Otwórz ponownie link do płatności i kontynuuj stamtąd.
too-large-title = Tekst był za długi
too-large-text = Nic się nie stało. Wróć i skróć wpisany tekst.
unreadable-title = Nie udało się tego odczytać
unreadable-text = Nic się nie stało. Wróć i spróbuj ponownie.
failure-title = Coś poszło nie tak po naszej stronie
failure-text = Poczekaj chwilę i ponownie otwórz link do płatności. W tym czasie nie rozpoczynaj drugiej płatności.
too-many-requests = Zbyt wiele żądań z Twojej sieci. Poczekaj chwilę i ponownie otwórz link do płatności.
busy = W tej chwili płaci bardzo wiele osób. Poczekaj chwilę i ponownie otwórz link do płatności.
open-payment = Otwórz płatność

## Zaproszenia od resellerów

open-invitation = Otwórz zaproszenie
no-invitation-title = Nie znamy tego zaproszenia
no-invitation-text = Sprawdź, czy adres jest kompletny, albo zapytaj nadawcę.
invitation-foreign-text = To żądanie nie pochodziło z naszej strony, więc nic się nie stało. Otwórz ponownie zaproszenie i kontynuuj stamtąd.
invitation-title = { $reseller } chce przyjmować płatności w Twoim imieniu
invitation-text = Jeśli się zgodzisz, { $reseller } będzie tworzyć płatności dla { $business } i kierować Twoich klientów do zapłaty.
invitation-yours = Płatności i pieniądze należą do Ciebie: obowiązują Twoje ustawienia i limity, a o każdej płatności otrzymasz powiadomienie. Zgodę możesz wycofać w każdej chwili.
invitation-code = Kod zgody
invitation-code-hint = Otrzymasz go od operatora tej usługi, a nie od zapraszającego. Zaczyna się od km_, jest ważny 24 godziny i działa jeden raz. Nie przekazuj go nikomu.
invitation-accept = Zgadzam się
invitation-decline = Odrzucam
invitation-until = Możesz odpowiedzieć do { $date } (UTC).
invitation-footer = Do wyrażenia zgody potrzebny jest kod zgody. Sam ten adres pozwala tylko odrzucić zaproszenie.
invitation-authorized-title = Zgoda została wyrażona
invitation-authorized-text = { $reseller } może teraz tworzyć płatności dla { $business }. Aby to cofnąć, zwróć się do operatora tej usługi.
invitation-declined-title = To zaproszenie zostało odrzucone
invitation-declined-text = { $reseller } nie może nic zrobić w Twoim imieniu na jego podstawie.
invitation-expired-title = To zaproszenie wygasło
invitation-expired-text = Można było na nie odpowiedzieć w ciągu 30 dni. Jeśli nadal chcesz się zgodzić, poproś o nowe: { $reseller }.
invitation-revoked-title = Zgoda została wycofana
invitation-revoked-text = { $reseller } nie może już tworzyć dla Ciebie płatności.
invitation-error-missing = Wpisz swój kod zgody.
invitation-error-wrong = Ten kod jest błędny, wykorzystany lub nieważny. Po pięciu błędnych próbach potrzebny jest nowy.
invitation-notice-decide = Naciśnij „Zgadzam się” lub „Odrzucam”.

## Operatorzy

provider-unnamed = operatora płatności
