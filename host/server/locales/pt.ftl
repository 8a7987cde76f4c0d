# O que quem paga lê, em português.

## Em todas as páginas

test-banner = TEST
test-banner-text = Este é um pagamento de teste. Nenhum dinheiro real é movimentado.
footer-reassurance = Os dados do cartão e do banco são indicados apenas junto do prestador de pagamento. Nunca chegam a esta página.
footer-brand = Página de pagamento Kassette
opens-new-tab = (abre num novo separador)
language-menu = Idioma
summary-pay = Está a pagar a { $merchant }
summary-paid = Pagou a { $merchant }
summary-about = Pagamento a { $merchant }
summary-order = Pedido
support = Perguntas sobre o seu pedido?

## Escolher

choose-title = Pagar { $amount } a { $merchant }
choose-heading = Como deseja pagar?
choose-heading-again = Como deseja pagar agora?
choose-hint = Ao escolher, ainda nada é cobrado. O pagamento é concluído nos passos seguintes.
choose-with = Continuar com { $method }
choose-declined = A sua última tentativa foi recusada.
choose-down = Indisponível durante cerca de um minuto, porque { $provider } não responde.
choose-via = através de { $provider }
choose-more = Mais sobre { $provider }
changed-title = Por favor, veja mais uma vez
changed-text = { $method } passaria agora por { $provider }, nas condições abaixo. Continue se estiver de acordo.
changed-continue = Continuar com { $provider }
changed-other = Ver todas as formas de pagamento

## Para o prestador

going-title = Vamos encaminhar para { $provider } …
going-text = Lá paga { $amount } e depois volta aqui.
go-text-stuck = Se nada acontecer, use o botão.
go-link = Continuar em { $provider }
open-title = O seu pagamento está à espera
open-text = Escolheu { $method } com { $provider }. Continue lá para pagar.
post-title = Continua em { $provider }
post-text = O seu pagamento está preparado. O botão leva a { $provider }, onde o confirma.
another-way = Escolher outra forma de pagamento
another-way-hint = Primeiro encerramos o pagamento com { $provider }, para que nunca pague duas vezes.
lapsed-title = Demorou um pouco demais
lapsed-text = O prazo para pagar com { $provider } terminou. Se já pagou, não pague outra vez: esta página mostrará o seu pagamento assim que for comunicado.

## Perguntas

questions-title = Alguns dados para { $provider }
questions-text = { $provider } precisa disto para aceitar o seu pagamento. Só o transmitimos para este pagamento.
questions-submit = Continuar
question-optional = opcional
question-choose = Escolha uma opção
question-email = Endereço de e-mail
question-phone = Número de telefone
question-given-name = Nome próprio
question-family-name = Apelido
error-summary = Por favor, verifique as respostas assinaladas.
error-required = Por favor, preencha este campo.
error-email = Por favor, indique um endereço de e-mail, por exemplo nome@example.org.
error-phone = Por favor, indique um número de telefone com o indicativo do país, por exemplo +351 21 123 4567.
error-length = Por favor, use no máximo { $most } caracteres.
error-choice = Por favor, escolha uma das opções.
error-characters = Por favor, use apenas letras, algarismos e pontuação comum.
error-card = Por favor, não introduza aqui um número de cartão.

## Instruções

show-title = Pagar com { $method }
show-details = Dados do pagamento
show-details-hint = Clique ou toque num valor para o selecionar por inteiro.
copy = Copiar
show-qr = Código QR para a aplicação do seu banco ou carteira; contém os dados de pagamento desta página
show-link = Abrir a aplicação
show-page = Abrir a página de pagamento
show-left = Tempo restante para pagar: { $time }
show-paid = Já paguei – verificar agora

## Em que estado está um pagamento

completed-title = Pagamento concluído
completed-text = Obrigado. Pagou { $amount } a { $merchant }.
completed-test = Isto foi um teste. Nada foi cobrado.
receipt-date = Data
receipt-method = Forma de pagamento
receipt-by = { $method }, com { $provider }
receipt-reference = Referência
receipt-payee = Pago a
receipt-paid = Valor pago
receipt-refunded = Devolvido em { $day }
receipt-rest = Pago após devoluções
receipt-keep = Para guardar uma cópia, imprima esta página ou guarde-a em PDF. Confirma o pagamento e não é uma fatura.
completed-part-returned = Foram devolvidos { $amount }.
completed-disputed = Este pagamento está em disputa junto do prestador de pagamentos.
second-received = Foi também recebido outro pagamento para esta encomenda. Por favor, contacte { $merchant }.
second-part-given-back = Foi também recebido outro pagamento para esta encomenda, do qual uma parte foi devolvida. Por favor, contacte { $merchant } sobre o resto.
second-given-back = Foi também recebido outro pagamento para esta encomenda, que já foi devolvido.
accepted-text = { $merchant } aceitou este pagamento como pago.
returned-title = O seu dinheiro foi devolvido
returned-text = Tinha pago { $amount } a { $merchant }; esse valor foi devolvido.
money-received = No entanto, foi recebido dinheiro. Por favor, não pague outra vez e contacte { $merchant }.
money-part-given-back = No entanto, foi recebido dinheiro e uma parte foi devolvida. Por favor, não pague outra vez e contacte { $merchant } sobre o resto.
money-given-back = O dinheiro que tinha sido recebido foi devolvido. Se ainda deseja pagar, comece de novo em { $merchant }.
money-unclear = Não é certo se foi cobrado algum valor. Por favor, não pague outra vez e contacte { $merchant }.
processing-title = O seu pagamento está a ser processado
processing-text = Normalmente demora apenas um momento. Não precisa de fazer nada.
verification-title = À espera da confirmação final
verification-text = O seu pagamento chegou e está a ser confirmado. Pode demorar um pouco. Pode fechar esta página; { $merchant } será informado.
verification-awaited = Aguardamos que { $provider } confirme o seu pagamento. Por favor, não pague outra vez. Pode fechar esta página; { $merchant } será informado.
review-title = O seu pagamento está a ser verificado
review-text = Alguém o analisa antes de ser executado. Por favor, não pague outra vez. { $merchant } será informado do resultado.
review-part-given-back = Uma parte do dinheiro recebido foi devolvida.
review-given-back = O dinheiro recebido foi devolvido.
failed-title = Este pagamento não foi realizado
failed-text = Nada foi cobrado. Para tentar de novo, inicie um novo pagamento em { $merchant }.
cancelled-title = Este pagamento foi anulado
cancelled-text = Nada foi cobrado. Se ainda deseja pagar, comece de novo em { $merchant }.
expired-title = Este pagamento expirou
expired-text = Não foi pago a tempo e nada foi cobrado. Se ainda deseja pagar, comece de novo em { $merchant }.
expired-late = Se acabou de pagar, não pague outra vez e contacte { $merchant }. Um pagamento que ainda chegue será analisado.
checking-title = Um momento, por favor
checking-text = { $provider } ainda não respondeu. Esclarecemos isso antes de qualquer outra coisa, para que nunca pague duas vezes.
checking-retry = Perguntar de novo
waiting-title = À espera de { $provider }
waiting-text = Assim que { $provider } confirmar o seu pagamento, verá aqui. Ainda não terminou? Pode continuar.
waiting-declined = A última tentativa com { $provider } foi recusada. Pode tentar lá outra vez. Outra forma de pagar poderá ser escolhida quando { $provider } comunicar que a tentativa terminou.
declined-title = O pagamento foi recusado
ended-title = Ainda não pagou
ended-text = O pagamento com { $provider } terminou e nada foi cobrado.
try-again = Pode tentar de novo ou escolher outra forma de pagamento.
pay-in-shop = Se ainda deseja pagar, comece de novo em { $merchant }.
choose-again = Escolher como pagar
see-current = Ver o pagamento
direct-title = Por favor, continue na loja
direct-text = Este pagamento é iniciado por { $merchant }. Volte à loja e escolha pagar lá.
unavailable-title = Não é possível pagar neste momento
unavailable-text = De momento não há nenhuma forma de pagamento disponível para este valor. Tente mais tarde ou contacte { $merchant }.
back-to-merchant = Voltar à loja
back-soon = Dentro de alguns segundos voltará automaticamente a { $merchant }.
stay = Ficar nesta página
close-page = Já pode fechar esta página.
updates-itself = Esta página atualiza-se sozinha.
updates-pause = Pausar
updates-paused = A atualização está em pausa.
check-again = Verificar de novo

## Avisos depois de uma escolha

notice-still-open = Não foi possível encerrar com certeza o pagamento com { $provider }. Para que nunca pague duas vezes, continue-o ou tente de novo daqui a pouco.
notice-not-available = Essa forma de pagamento já não está disponível.
choose-another = Por favor, escolha outra.
not-taken = Nada foi cobrado por esta tentativa.
one-try-left = Resta uma tentativa: escolha uma forma de pagamento que provavelmente funcione.
declined-funds = O pagamento foi recusado: o saldo era insuficiente.
advice-funds = Use outro cartão ou outra forma de pagamento, ou pergunte ao seu banco pelo saldo e pelo limite.
declined-expired = O pagamento foi recusado: o cartão expirou.
advice-expired = Use outro cartão ou verifique a data que introduziu.
declined-authentication = O seu banco não conseguiu confirmar a sua identidade.
advice-authentication = Tente de novo e confirme na aplicação do seu banco, ou escolha outra forma de pagamento.
declined-limit = O pagamento foi recusado: o valor ultrapassa um limite.
advice-limit = Peça ao seu banco que aumente o limite ou escolha outra forma de pagamento.
declined-bank = O pagamento foi recusado sem indicação do motivo.
advice-bank = O seu banco talvez possa dizer o motivo. Use outro cartão ou escolha outra forma de pagamento.
declined-cancelled = Cancelou o pagamento.
declined-provider = { $provider } não aceitou o pagamento.
down-title = { $provider } não responde neste momento.
down-text = O seu pagamento não foi iniciado lá e nada foi cobrado.
advice-down = Escolha outra forma ou verifique de novo dentro de um minuto.
notice-forbidden = De momento não é possível iniciar pagamentos a { $merchant }.
notice-conflict = Isso já não é possível. É este o estado atual do seu pagamento.
notice-unsettled = O prestador ainda não respondeu. Aguarde um momento, por favor.
notice-choose = Por favor, escolha uma das formas de pagamento.

## Quando algo corre mal

not-found-title = Não conhecemos esta ligação de pagamento
not-found-text = Verifique se o endereço está completo, ou volte à loja e comece de novo a partir de lá.
foreign-title = Por favor, use os botões da nossa página
foreign-text = Este pedido não veio da nossa página de pagamento, por isso nada foi feito. Abra de novo a sua ligação de pagamento e continue a partir daí.
too-large-title = O texto era demasiado longo
too-large-text = Nada foi feito. Por favor, volte atrás e encurte o que escreveu.
unreadable-title = Não conseguimos ler isso
unreadable-text = Nada foi feito. Por favor, volte atrás e tente de novo.
failure-title = Algo correu mal do nosso lado
failure-text = Aguarde um momento e abra de novo a sua ligação de pagamento. Entretanto, não inicie um segundo pagamento.
too-many-requests = Demasiados pedidos a partir da sua rede. Aguarde um momento e abra de novo a sua ligação de pagamento.
busy = Há muitas pessoas a pagar neste momento. Aguarde um momento e abra de novo a sua ligação de pagamento.
open-payment = Abrir o pagamento

## Convites de revendedores

open-invitation = Abrir o convite
no-invitation-title = Não conhecemos este convite
no-invitation-text = Verifique se o endereço está completo ou pergunte a quem o enviou.
invitation-foreign-text = Este pedido não veio da nossa página, por isso nada foi feito. Abra de novo o convite e continue a partir daí.
invitation-title = { $reseller } gostaria de receber pagamentos por si
invitation-text = Se aceitar, { $reseller } poderá criar pagamentos para { $business } e enviar os seus clientes para pagar.
invitation-yours = Os pagamentos e o dinheiro são seus: valem as suas próprias definições e limites, e é informado de cada pagamento. Pode retirar o consentimento a qualquer momento.
invitation-code = Código de consentimento
invitation-code-hint = É o operador deste serviço que lho dá, não quem o convida. Começa por km_, é válido por 24 horas e serve uma só vez. Não o passe a ninguém.
invitation-accept = Aceitar
invitation-decline = Recusar
invitation-until = Pode responder até { $date } (UTC).
invitation-footer = Para aceitar é preciso o seu código de consentimento. Só com este endereço pode recusar-se, e nada mais.
invitation-authorized-title = Aceitou
invitation-authorized-text = { $reseller } já pode criar pagamentos para { $business }. Para retirar o consentimento, fale com o operador deste serviço.
invitation-declined-title = Este convite foi recusado
invitation-declined-text = { $reseller } não pode fazer nada por si por causa dele.
invitation-expired-title = Este convite expirou
invitation-expired-text = Podia responder-se durante 30 dias. Se ainda quiser aceitar, peça um novo a { $reseller }.
invitation-revoked-title = O consentimento foi retirado
invitation-revoked-text = { $reseller } já não pode criar pagamentos para si.
invitation-error-missing = Introduza o seu código de consentimento.
invitation-error-wrong = Este código está errado, já foi usado ou já não é válido. Após cinco tentativas erradas precisa de um novo.
invitation-notice-decide = Escolha «Aceitar» ou «Recusar».

## Prestadores

provider-unnamed = o prestador de pagamento
