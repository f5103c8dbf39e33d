package benchmark

import (
	"math/rand/v2"
	"strings"
)

// MessageBytes is the length of a message.
const MessageBytes = 1000

// TextSource makes random sentences with the statistics of language: few words
// often, most rarely. It repeats nothing that a database could compress, and
// every run makes the same text.
type TextSource struct {
	words []string
	pick  *rand.Zipf
	dice  *rand.Rand
}

// NewTextSource begins the text from its start.
func NewTextSource() *TextSource {
	dice := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(`the of and to a in that is was it for on with as his they be at one have this from or had by not but what all were when we
there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time
could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know
get through back much before go good new write our used me man too any day same right look think also around another came come work three must because does
part even place well such here take why things help put years different away again off went old number great tell men say small every found still between
name should home big give air line set own under read last never us left end along while might next sound below saw something thought both few those always
looked show large often together asked house world going want school important until form food keep children feet land side without boy once animals life
enough took four head above kind began almost live page got earth need far hand high year mother light country father let night following picture being
study second eyes soon times story boys since white days ever paper hard near sentence better best across during today others however sure means knew try
told young miles sun ways thing whole hear example heard several change answer room sea against top turned learn point city play toward five using himself
usually money seen car morning given trouble river weather letter engine budget delivery invoice meeting contract account harbour garden window kitchen
market doctor ticket journey passport station umbrella coat jacket winter summer autumn Oslo Lisbon Vienna Nairobi Kyoto Thursday January seventeen hundred`)
	// Every word also has rarer forms, as in a language.
	for _, ending := range []string{"s", "ing", "ed", "ly", "less"} {
		for _, word := range words[:len(words):len(words)] {
			if len(words) < 2000 && len(word) > 3 && !strings.HasSuffix(word, ending) {
				words = append(words, word+ending)
			}
		}
	}
	return &TextSource{words: words, pick: rand.NewZipf(dice, 1.1, 4, uint64(len(words)-1)), dice: dice}
}

// Text returns the next so many bytes.
func (p *TextSource) Text(length int) string {
	var b strings.Builder
	for left := 0; b.Len() < length; left-- {
		word := p.words[p.pick.Uint64()]
		switch {
		case b.Len() == 0:
			left = 5 + p.dice.IntN(14)
			word = strings.ToUpper(word[:1]) + word[1:]
		case left <= 0:
			left = 5 + p.dice.IntN(14)
			b.WriteString(". ")
			word = strings.ToUpper(word[:1]) + word[1:]
		default:
			b.WriteString(" ")
		}
		b.WriteString(word)
	}
	return b.String()[:length]
}
