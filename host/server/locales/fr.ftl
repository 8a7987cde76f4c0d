# Ce que lisent les payeurs, en français.

## Autour de chaque page

test-banner = TEST
test-banner-text = Ceci est un paiement de test. Aucun argent réel n’est en jeu.
footer-reassurance = Vous ne saisissez vos données de carte et de banque que chez le prestataire de paiement. Elles n’arrivent jamais sur cette page.
footer-brand = Page de paiement Kassette
opens-new-tab = (s’ouvre dans un nouvel onglet)
language-menu = Langue
summary-pay = Vous payez à { $merchant }
summary-paid = Vous avez payé à { $merchant }
summary-about = Paiement à { $merchant }
summary-order = Commande
support = Des questions sur votre commande ?

## Choisir

choose-title = Payer { $amount } à { $merchant }
choose-heading = Comment souhaitez-vous payer ?
choose-heading-again = Comment souhaitez-vous payer maintenant ?
choose-hint = Votre choix n’entraîne encore aucun débit. Vous effectuez le paiement aux étapes suivantes.
choose-with = Continuer avec { $method }
choose-declined = Votre dernier essai a été refusé.
choose-down = Indisponible pendant environ une minute, car { $provider } ne répond pas.
choose-via = via { $provider }
choose-more = En savoir plus sur { $provider }
changed-title = Merci de vérifier encore une fois
changed-text = { $method } passerait maintenant par { $provider }, aux conditions ci-dessous. Continuez si vous êtes d’accord.
changed-continue = Continuer avec { $provider }
changed-other = Voir tous les moyens de paiement

## Vers le prestataire

going-title = Nous vous dirigeons vers { $provider } …
going-text = Vous y payez { $amount }, puis vous revenez ici.
go-text-stuck = Si rien ne se passe, utilisez le bouton.
go-link = Continuer vers { $provider }
open-title = Votre paiement vous attend
open-text = Vous avez choisi { $method } avec { $provider }. Continuez là-bas pour payer.
post-title = Direction { $provider }
post-text = Votre paiement est prêt. Le bouton vous mène chez { $provider }, où vous le confirmez.
another-way = Choisir un autre moyen de paiement
another-way-hint = Nous clôturons d’abord le paiement chez { $provider }, pour que vous ne payiez jamais deux fois.
lapsed-title = Cela a pris un peu trop de temps
lapsed-text = Le délai pour payer avec { $provider } est écoulé. Si vous avez déjà payé, ne payez pas une seconde fois : cette page affichera votre paiement dès qu’il sera signalé.

## Questions

questions-title = Quelques informations pour { $provider }
questions-text = { $provider } en a besoin pour accepter votre paiement. Nous les transmettons pour ce seul paiement.
questions-submit = Continuer
question-optional = facultatif
question-choose = Veuillez choisir
question-email = Adresse e-mail
question-phone = Numéro de téléphone
question-given-name = Prénom
question-family-name = Nom
error-summary = Merci de vérifier les réponses signalées.
error-required = Merci de remplir ce champ.
error-email = Merci d’indiquer une adresse e-mail, par exemple nom@example.org.
error-phone = Merci d’indiquer un numéro de téléphone avec l’indicatif du pays, par exemple +33 1 23 45 67 89.
error-length = Merci d’utiliser au plus { $most } caractères.
error-choice = Merci de choisir l’une des options.
error-characters = Merci de n’utiliser que des lettres, des chiffres et la ponctuation courante.
error-card = Merci de ne pas saisir de numéro de carte ici.

## Instructions

show-title = Payer avec { $method }
show-details = Détails du paiement
show-details-hint = Cliquez sur une valeur ou touchez-la pour la sélectionner en entier.
copy = Copier
show-qr = Code QR pour votre application bancaire ou votre portefeuille ; il contient les détails de paiement de cette page
show-link = Ouvrir l’application
show-page = Ouvrir la page de paiement
show-left = Temps restant pour payer : { $time }
show-paid = J’ai payé – vérifier maintenant

## Où en est un paiement

completed-title = Paiement effectué
completed-text = Merci. Vous avez payé { $amount } à { $merchant }.
completed-test = C’était un test. Personne n’a été débité.
receipt-date = Date
receipt-method = Moyen de paiement
receipt-by = { $method }, avec { $provider }
receipt-reference = Référence
receipt-payee = Payé à
receipt-paid = Montant payé
receipt-refunded = Remboursé le { $day }
receipt-rest = Payé après remboursements
receipt-keep = Pour en garder une copie, imprimez cette page ou enregistrez-la en PDF. Elle confirme le paiement et n’est pas une facture.
completed-part-returned = { $amount } ont été remboursés.
completed-disputed = Ce paiement est contesté auprès du prestataire de paiement.
second-received = Un autre paiement a également été reçu pour cette commande. Merci de vous adresser à { $merchant }.
second-part-given-back = Un autre paiement a également été reçu pour cette commande, et une partie en a été remboursée. Merci de vous adresser à { $merchant } pour le reste.
second-given-back = Un autre paiement a également été reçu pour cette commande, et il a été remboursé.
accepted-text = { $merchant } a accepté ce paiement comme réglé.
returned-title = Votre argent a été remboursé
returned-text = Vous aviez payé { $amount } à { $merchant } ; cette somme a été remboursée.
money-received = De l’argent a cependant été reçu. Merci de ne pas payer une seconde fois et de vous adresser à { $merchant }.
money-part-given-back = De l’argent a cependant été reçu, et une partie a été remboursée. Merci de ne pas payer une seconde fois et de vous adresser à { $merchant } pour le reste.
money-given-back = L’argent qui avait été reçu a été remboursé. Si vous souhaitez toujours payer, merci de recommencer chez { $merchant }.
money-unclear = Il n’est pas certain que de l’argent ait été débité. Merci de ne pas payer une seconde fois et de vous adresser à { $merchant }.
processing-title = Votre paiement est en cours de traitement
processing-text = Cela ne prend en général qu’un instant. Vous n’avez rien à faire.
verification-title = En attente de la confirmation finale
verification-text = Votre paiement est arrivé et doit encore être confirmé. Cela peut prendre un certain temps. Vous pouvez fermer cette page ; { $merchant } sera informé.
verification-awaited = Nous attendons que { $provider } confirme votre paiement. Merci de ne pas payer une seconde fois. Vous pouvez fermer cette page ; { $merchant } sera informé.
review-title = Votre paiement est en cours de vérification
review-text = Quelqu’un l’examine avant qu’il soit exécuté. Merci de ne pas payer une seconde fois. { $merchant } sera informé du résultat.
review-part-given-back = Une partie de l’argent reçu a été remboursée.
review-given-back = L’argent reçu a été remboursé.
failed-title = Ce paiement n’a pas abouti
failed-text = Rien n’a été débité. Pour réessayer, merci de commencer un nouveau paiement chez { $merchant }.
cancelled-title = Ce paiement a été annulé
cancelled-text = Rien n’a été débité. Si vous souhaitez toujours payer, merci de recommencer chez { $merchant }.
expired-title = Ce paiement a expiré
expired-text = Il n’a pas été réglé à temps et rien n’a été débité. Si vous souhaitez toujours payer, merci de recommencer chez { $merchant }.
expired-late = Si vous venez de payer, ne payez pas une seconde fois et adressez-vous à { $merchant }. Un paiement qui arriverait encore sera examiné.
checking-title = Un instant, s’il vous plaît
checking-text = { $provider } n’a pas encore répondu. Nous nous en assurons avant toute autre chose, pour que vous ne payiez jamais deux fois.
checking-retry = Demander à nouveau
waiting-title = En attente de { $provider }
waiting-text = Dès que { $provider } confirme votre paiement, vous le voyez ici. Pas encore terminé ? Vous pouvez continuer.
waiting-declined = Le dernier essai avec { $provider } a été refusé. Vous pouvez y réessayer. Un autre moyen pourra être choisi dès que { $provider } signalera que l’essai est terminé.
declined-title = Le paiement a été refusé
ended-title = Vous n’avez pas encore payé
ended-text = Le paiement avec { $provider } est terminé et rien n’a été débité.
try-again = Vous pouvez réessayer ou choisir un autre moyen.
pay-in-shop = Si vous souhaitez toujours payer, merci de recommencer chez { $merchant }.
choose-again = Choisir comment payer
see-current = Voir le paiement
direct-title = Merci de continuer dans la boutique
direct-text = C’est { $merchant } qui lance ce paiement. Retournez dans la boutique et choisissez d’y payer.
unavailable-title = Le paiement n’est pas possible pour le moment
unavailable-text = Aucun moyen de paiement n’est disponible pour ce montant actuellement. Merci de réessayer plus tard ou de vous adresser à { $merchant }.
back-to-merchant = Retour à la boutique
back-soon = Dans quelques secondes, vous serez ramené chez { $merchant }.
stay = Rester sur cette page
close-page = Vous pouvez maintenant fermer cette page.
updates-itself = Cette page s’actualise d’elle-même.
updates-pause = Suspendre
updates-paused = L’actualisation est suspendue.
check-again = Vérifier à nouveau

## Avis après un choix

notice-still-open = Le paiement chez { $provider } n’a pas pu être clôturé avec certitude. Pour ne jamais payer deux fois, merci de le poursuivre ou de réessayer dans un petit moment.
notice-not-available = Ce moyen de paiement n’est plus disponible.
choose-another = Merci d’en choisir un autre.
not-taken = Rien n’a été débité pour cet essai.
one-try-left = Il reste un essai : choisissez un moyen de paiement qui a de bonnes chances d’aboutir.
declined-funds = Le paiement a été refusé : les fonds étaient insuffisants.
advice-funds = Utilisez une autre carte ou un autre moyen, ou renseignez-vous auprès de votre banque sur votre solde et votre plafond.
declined-expired = Le paiement a été refusé : la carte a expiré.
advice-expired = Utilisez une autre carte, ou vérifiez la date saisie.
declined-authentication = Votre banque n’a pas pu confirmer votre identité.
advice-authentication = Réessayez et confirmez dans l’application de votre banque, ou choisissez un autre moyen.
declined-limit = Le paiement a été refusé : le montant dépasse un plafond.
advice-limit = Demandez à votre banque de relever le plafond, ou choisissez un autre moyen.
declined-bank = Le paiement a été refusé sans que la raison soit donnée.
advice-bank = Votre banque pourra peut-être vous dire pourquoi. Utilisez une autre carte, ou choisissez un autre moyen.
declined-cancelled = Vous avez annulé le paiement.
declined-provider = { $provider } n’a pas accepté le paiement.
down-title = { $provider } ne répond pas actuellement.
down-text = Votre paiement n’y a pas été lancé et rien n’a été débité.
advice-down = Choisissez un autre moyen, ou vérifiez à nouveau dans une minute.
notice-forbidden = Les paiements à { $merchant } ne peuvent pas être lancés pour le moment.
notice-conflict = Ce n’est plus possible. Voici où en est votre paiement.
notice-unsettled = Le prestataire n’a pas encore répondu. Merci de patienter un instant.
notice-choose = Merci de choisir l’un des moyens de paiement.

## Quand quelque chose ne va pas

not-found-title = Nous ne connaissons pas ce lien de paiement
not-found-text = Merci de vérifier que l’adresse est complète, ou de retourner dans la boutique et de recommencer à partir de là.
foreign-title = Merci d’utiliser les boutons de notre page
foreign-text = Cette demande ne venait pas de notre page de paiement ; rien n’a donc été fait. Ouvrez à nouveau votre lien de paiement et continuez à partir de là.
too-large-title = Le texte était trop long
too-large-text = Rien n’a été fait. Merci de revenir en arrière et de raccourcir votre saisie.
unreadable-title = Nous n’avons pas pu lire cela
unreadable-text = Rien n’a été fait. Merci de revenir en arrière et de réessayer.
failure-title = Un problème est survenu de notre côté
failure-text = Merci de patienter un instant, puis d’ouvrir à nouveau votre lien de paiement. Ne commencez pas de second paiement entre-temps.
too-many-requests = Trop de demandes depuis votre réseau. Patientez un instant, puis ouvrez à nouveau votre lien de paiement.
busy = De nombreuses personnes paient en ce moment. Patientez un instant, puis ouvrez à nouveau votre lien de paiement.
open-payment = Ouvrir le paiement

## Invitations de revendeurs

open-invitation = Ouvrir l’invitation
no-invitation-title = Nous ne connaissons pas cette invitation
no-invitation-text = Vérifiez que l’adresse est complète ou demandez à la personne qui vous l’a envoyée.
invitation-foreign-text = Cette demande ne vient pas de notre page ; rien n’a donc été fait. Ouvrez de nouveau l’invitation et continuez à partir de là.
invitation-title = { $reseller } souhaite encaisser des paiements pour vous
invitation-text = Si vous acceptez, { $reseller } pourra créer des paiements pour { $business } et envoyer vos clients payer.
invitation-yours = Les paiements et l’argent sont à vous : vos propres réglages et limites s’appliquent, et vous êtes informé de chaque paiement. Vous pouvez revenir sur votre accord à tout moment.
invitation-code = Code de consentement
invitation-code-hint = C’est l’opérateur de ce service qui vous le remet, pas celui qui vous invite. Il commence par km_, est valable 24 heures et ne sert qu’une fois. Ne le transmettez à personne.
invitation-accept = Accepter
invitation-decline = Refuser
invitation-until = Vous pouvez répondre jusqu’au { $date } (UTC).
invitation-footer = Pour accepter, il faut votre code de consentement. Avec cette seule adresse, on ne peut que refuser.
invitation-authorized-title = Vous avez accepté
invitation-authorized-text = { $reseller } peut maintenant créer des paiements pour { $business }. Pour revenir sur votre accord, adressez-vous à l’opérateur de ce service.
invitation-declined-title = Cette invitation a été refusée
invitation-declined-text = Elle ne permet à { $reseller } de rien faire pour vous.
invitation-expired-title = Cette invitation a expiré
invitation-expired-text = On pouvait y répondre pendant 30 jours. Si vous souhaitez encore accepter, demandez-en une nouvelle à { $reseller }.
invitation-revoked-title = L’accord a été retiré
invitation-revoked-text = { $reseller } ne peut plus créer de paiements pour vous.
invitation-error-missing = Veuillez saisir votre code de consentement.
invitation-error-wrong = Ce code est faux, déjà utilisé ou plus valable. Après cinq essais manqués, il vous en faut un nouveau.
invitation-notice-decide = Veuillez choisir « Accepter » ou « Refuser ».

## Prestataires

provider-unnamed = le prestataire de paiement
