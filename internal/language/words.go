package language

import (
	"slices"
	"strings"
)

// functionWords are the languages of each function word.
var functionWords = func() map[string][]string {
	all := map[string][]string{}
	for language, words := range listed {
		for word := range strings.FieldsSeq(words) {
			if word = Fold(word); !slices.Contains(all[word], language) {
				all[word] = append(all[word], language)
			}
		}
	}
	return all
}()

// listed are the function words of languages, contracted forms too. Content words
// are left out even where they are frequent.
var listed = map[string]string{
	"en": `a an the and or but nor if of to in on at by for with from as into onto over under up down out off about between through
during before after above below against until unless while because since than then so too very just only also even still yet
is are was were be been being am do does did doing done have has had having can could will would shall should may might must
i me my mine myself we us our ours ourselves you your yours yourself he him his she her hers it its they them their theirs
this that these those there here what which who whom whose when where why how whether not no yes any some each every all both
more most much many few less least other another such own same again ever never now please tell
don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't shouldn't haven't hasn't hadn't
i'm i've i'll i'd you're you've you'll it's that's there's what's who's where's how's let's he's she's we're we've they're
s t d ll m re ve`,
	"de": `der die das den dem des ein eine einen einem einer eines kein keine keinen und oder aber denn wenn ob weil dass als wie
in im an am auf aus bei mit nach seit von vom zu zum zur für gegen ohne um durch über unter vor hinter neben zwischen bis
ist sind war waren bin bist sein gewesen wird werden wurde wurden hat haben hatte hatten habe hast kann können konnte muss müssen
soll sollen will wollen möchte möchten darf dürfen mag
ich mich mir mein meine meinen meinem meiner meines wir uns unser unsere unseren unserem unserer du dich dir dein deine er ihn ihm
sie ihr ihre ihren ihrem ihrer es sich man seine seinen
dies diese dieser dieses dieses jener hier dort da was welche welcher welches welchen welchem wer wen wem wessen wann wo wohin woher
warum wieso weshalb wofür womit wozu wieviel viel viele nicht nein ja auch nur noch schon sehr so dann doch nun jetzt mehr oder etwas`,
	"es": `el la los las lo un una unos unas y e o u pero ni si porque que de del a al en con sin por para desde hasta sobre entre tras
es son era eran fue fueron ser sido soy eres está están estaba estaban estoy hay ha han he había tiene tienen tengo puede pueden
yo me mí mi mis mío nosotros nos nuestro nuestra nuestros nuestras tú te tu tus usted él ella ellos ellas le les se su sus
este esta estos estas ese esa eso aquel aquí allí qué cuál cuáles quién quiénes cuándo dónde adónde cómo cuánto cuánta cuántos
no sí también solo sólo ya muy más menos todo toda todos todas otro otra`,
	"fr": `le la les l un une des du de d et ou mais ni si car que qu à au aux en dans avec sans pour par depuis sur sous entre chez vers
est sont était étaient être été suis es a ont avait avaient avoir ai as peut peuvent faut fait font
je j me m moi mon ma mes nous notre nos tu te t toi ton ta tes vous votre vos il elle ils elles lui leur leurs se s son sa ses on ce c
cet cette ces ça cela ici là quel quelle quels quelles qui quoi quand où comment pourquoi combien lequel
ne n pas plus non oui aussi seulement déjà encore très tout toute tous toutes autre y est-ce qu'est-ce`,
	"ru": `и а но или да что чтобы если как в во на с со у к ко от до из за по о об про для при над под без через между
это этот эта эти тот та те так там здесь тут был была было были быть есть будет будут
я меня мне мной мой моя моё мои моей моего моему моих мы нас нам нами наш наша наше наши нашу нашей нашего ты тебя тебе твой вы вас вам ваш
он его ему она её ей они их им себя свой который которая которые какой какая какое какие каком какую кто кого кому кем чем чего когда где куда откуда
почему зачем сколько не нет ни же ли бы уже ещё только тоже также очень все всё весь другой такая такой такое`,
	"ja": `何 誰 私 僕 俺`,
	"it": `il lo la i gli le un uno una e o ma se perché che di del della dei delle a al alla ai alle da dal in nel nella con su sul per tra fra
è sono era erano essere stato ho hai ha abbiamo hanno io me mi mio mia miei noi ci nostro nostra tu ti tuo tua lui lei loro si suo sua
questo questa quello quella qui cosa quale quali chi quando dove come quanto quanti non sì anche solo già molto più`,
	"pt": `o a os as um uma uns umas e ou mas se porque que de do da dos das ao aos em no na nos nas com sem por para desde até sobre entre
é são era eram foi foram ser sou está estão estava há tem têm tenho pode eu me mim meu minha meus minhas nós nosso nossa tu te você ele ela elas
lhe seu sua este esta isto esse essa isso aqui ali qual quais quem quando onde como quanto quantos não sim também só já muito mais`,
	"nl": `de het een en of maar want als dat die dit deze in op aan bij met naar van voor door over onder uit om te tot zonder tegen tussen
is zijn was waren ben bent word wordt worden werd heeft hebben had kan kunnen moet moeten zal zullen wil
ik me mij mijn we wij ons onze je jij jouw u uw hij hem zij ze haar hun er hier daar wat welke welk wie wanneer waar waarom hoe hoeveel
niet geen nee ja ook nog al zeer veel meer`,
}

// personalWords speak of those who take part in a conversation.
var personalWords = func() map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(`i me my mine myself we us our ours ich mich mir mein meine meinen meinem meiner meines wir uns unser unsere
unseren unserem unserer yo mi mis mío nosotros nuestro nuestra nuestros nuestras je j moi mon ma mes nous notre nos я меня мне мой моя моё мои
моей моего моих мы нас нам наш наша наше наши нашу нашей ik mij mijn wij ons onze io mio mia noi nostro nostra eu meu minha nós nosso nossa`) {
		all[Fold(word)] = true
	}
	return all
}()
