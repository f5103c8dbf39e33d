package sentences_test

import (
	"strings"
	"testing"
	"unicode"
)

// paraphrases say the same thing twice, in other words.
var paraphrases = [...][2]string{
	{"Where did I leave my keys?", "I cannot find the thing that opens my front door."},
	{"The flight was cancelled because of fog.", "Bad weather kept our plane on the ground."},
	{"She is allergic to peanuts.", "Eating nuts makes her ill."},
	{"He started a new job in March.", "Since spring the man works for another company."},
	{"Please book a table for two tonight.", "Reserve dinner this evening, we are a couple."},
	{"My laptop will not turn on.", "This computer stays black when I press its power button."},
	{"The invoice has not been paid.", "Money is still owed for that bill."},
	{"I want to return these shoes.", "Can you take back the boots that were delivered?"},
	{"How do I change my password?", "Help me set new login credentials."},
	{"The baby slept through the night.", "Our infant did not wake up until morning."},
	{"He is afraid of heights.", "Standing on tall buildings scares him."},
	{"The concert was sold out.", "No tickets were left for the show."},
	{"It will rain tomorrow.", "The forecast expects showers on the next day."},
	{"She speaks four languages fluently.", "English, French, Italian and German are easy for my aunt."},
	{"The bridge is closed for repairs.", "Cars cannot cross the river while workers fix the road."},
	{"I prefer tea to coffee.", "A cup of Earl Grey is nicer than an espresso."},
	{"The deadline was moved to Friday.", "We got some extra days to finish."},
	{"His grandfather fought in the war.", "An ancestor of him was a soldier."},
	{"The company fired half of its staff.", "Many employees were laid off."},
	{"They got married last summer.", "Their wedding took position in July."},
	{"Turn down the music, please.", "The song is too loud."},
	{"The soup needs more salt.", "This broth tastes bland."},
	{"My car broke down on the highway.", "The engine of our vehicle died on the motorway."},
	{"Stocks fell sharply today.", "The market lost a lot of value."},
	{"The doctor told him to stop smoking.", "A physician advised giving up cigarettes."},
	{"The museum is free on Sundays.", "You need no entrance fee at the gallery on weekends."},
	{"He scored the winning goal.", "Thanks to his shot the team beat its opponent."},
	{"The parcel arrived damaged.", "When it was delivered the package was broken."},
	{"We ran out of milk.", "There is nothing left in the fridge to put in cereal."},
	{"The test failed on the build server.", "Continuous integration reported an error."},
	{"Delete all of my personal data.", "Erase every piece of private information about me."},
	{"She plays the piano beautifully.", "The girl is a gifted musician at the keyboard."},
	{"The house burned to the ground.", "A fire destroyed their home."},
	{"I forgot to bring an umbrella.", "I got soaked, having nothing against the rain."},
	{"Our cat is missing.", "Has anybody seen the pet that ran away?"},
	{"The teacher praised her essay.", "The instructor liked what she wrote."},
	{"He lost a lot of weight.", "The man is much thinner than before."},
	{"The hotel room was dirty.", "Nobody had cleaned where we stayed."},
	{"Gas prices are rising.", "Filling the tank gets more expensive."},
	{"They live near the beach.", "Their house is close to the sea."},
}

// Searching by meaning has to find what searching by words does not, or it is
// not worth its megabytes.
func TestEmbed_findsParaphrasesThatWordsDoNot(t *testing.T) {
	t.Parallel()
	var asked, said []string
	for _, p := range paraphrases {
		asked, said = append(asked, p[0]), append(said, p[1])
	}
	from, to := embed(t, asked...), embed(t, said...)
	byMeaning := found(func(i, j int) float64 { return product(from[i], to[j]) })
	byWords := found(func(i, j int) float64 { return shared(asked[i], said[j]) })
	t.Logf("first of %d: %d by meaning, %d by words", len(paraphrases), byMeaning, byWords)
	if byMeaning < 28 || byWords > byMeaning/2 {
		t.Errorf("first of %d: %d by meaning, %d by words", len(paraphrases), byMeaning, byWords)
	}
}

// found counts the paraphrases that no other text scores higher than. That
// favours words, by which many texts are equal.
func found(score func(i, j int) float64) int {
	n := 0
	for i := range paraphrases {
		best := true
		for j := range paraphrases {
			best = best && (j == i || score(i, j) <= score(i, i))
		}
		if best {
			n++
		}
	}
	return n
}

// shared is the share of a question's words that are in a text.
func shared(question, text string) float64 {
	in := words(text)
	n := 0
	for w := range words(question) {
		if in[w] {
			n++
		}
	}
	return float64(n) / float64(len(words(question)))
}

func words(text string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		all[w] = true
	}
	return all
}
