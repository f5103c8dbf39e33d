package catalog

import (
	"bytes"
	_ "embed" // the cards
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Card holds the facts about a model.
type Card struct {
	Context int    `json:"context"` // tokens in and out together; 0: not known
	Output  int    `json:"output"`  // most tokens of one answer; 0: not known
	Price   *Price `json:"price"`   // nil: not known
	Long    *Long  `json:"long"`    // nil: long requests have the same price

	// Tokenizer is the name to pass to Config.Counter; empty: the model's.
	Tokenizer string `json:"tokenizer"`
}

// Price is for a million tokens. Reasoning counts as output. A nil field means
// the price of input.
type Price struct {
	Input      session.Cost  `json:"input"`
	Output     session.Cost  `json:"output"`
	CacheRead  *session.Cost `json:"cacheRead"`
	CacheWrite *session.Cost `json:"cacheWrite"`
}

// Long is the price of a request with more than Over tokens of input.
type Long struct {
	Over int64 `json:"over"`
	Price
}

// Cost returns the cost of an answer, rounded up to a micro-dollar. Usage.Input
// includes tokens read from and written to the cache, which have other prices.
func (p Price) Cost(u session.Usage) session.Cost {
	var sum product
	read, written := max(u.CacheRead, 0), max(u.CacheWrite, 0)
	sum.add(max(u.Input-read-written, 0), p.Input)
	sum.add(read, orInput(p.CacheRead, p.Input))
	sum.add(written, orInput(p.CacheWrite, p.Input))
	sum.add(u.Output, p.Output)
	return sum.perMillion()
}

func orInput(price *session.Cost, input session.Cost) session.Cost {
	if price == nil {
		return input
	}
	return *price
}

// product sums tokens times prices in 128 bits: usage comes from a server, and
// no number may overflow.
type product struct{ hi, lo uint64 }

func (p *product) add(tokens int64, price session.Cost) {
	hi, lo := bits.Mul64(uint64(max(tokens, 0)), uint64(max(price, 0)))
	var carry uint64
	p.lo, carry = bits.Add64(p.lo, lo, 0)
	p.hi += hi + carry
}

// perMillion divides the sum by a million and rounds up. A result that does not
// fit becomes the largest cost.
func (p *product) perMillion() session.Cost {
	const million = 1_000_000
	lo, carry := bits.Add64(p.lo, million-1, 0)
	hi := p.hi + carry
	if hi >= million {
		return math.MaxInt64
	}
	cost, _ := bits.Div64(hi, lo, million)
	return session.Cost(min(cost, math.MaxInt64))
}

func (c Card) cost(u session.Usage) session.Cost {
	if c.Long != nil && u.Input > c.Long.Over {
		return c.Long.Cost(u)
	}
	return c.Price.Cost(u)
}

// Cards holds cards by the name provider/model.
type Cards map[string]Card

//go:embed models.json
var builtin []byte

// maxCards is the most bytes of a file of cards.
const maxCards = 1 << 20

// ReadCards reads cards in the format of models.json, the built-in file, and
// returns the day of the facts.
func ReadCards(r io.Reader) (Cards, time.Time, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxCards+1))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read model cards: %w", err)
	}
	if len(data) > maxCards {
		return nil, time.Time{}, &session.InvalidError{Field: "models", Reason: fmt.Sprintf("the file has more than %d bytes", maxCards)}
	}
	return parseCards(data)
}

func parseCards(data []byte) (Cards, time.Time, error) {
	var file struct {
		About   []string `json:"about"`
		Date    string   `json:"date"`
		Sources []string `json:"sources"`
		Models  []struct {
			Names []string `json:"names"`
			Card
		} `json:"models"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return nil, time.Time{}, &session.InvalidError{Field: "models", Reason: err.Error()}
	}
	date, err := time.Parse(time.DateOnly, file.Date)
	if err != nil {
		return nil, time.Time{}, &session.InvalidError{Field: "date", Reason: "is not a day like 2026-11-15"}
	}
	cards := Cards{}
	for _, entry := range file.Models {
		for _, name := range entry.Names {
			if err := entry.check(name); err != nil {
				return nil, time.Time{}, err
			}
			if _, twice := cards[name]; twice {
				return nil, time.Time{}, &session.InvalidError{Field: "models." + name, Reason: "is listed twice"}
			}
			cards[name] = entry.Card
		}
	}
	return cards, date, nil
}

// check refuses a card that would give a wrong cost.
func (c Card) check(name string) error {
	bad := func(reason string) error { return &session.InvalidError{Field: "models." + name, Reason: reason} }
	if _, _, ok := split(name); !ok {
		return bad("is not named provider/model")
	}
	if c.Context < 0 || c.Output < 0 {
		return bad("has a negative length")
	}
	if c.Long != nil && (c.Price == nil || c.Long.Over <= 0) {
		return bad("has a price for long requests, but none for others or no length")
	}
	prices := []*Price{c.Price}
	if c.Long != nil {
		prices = append(prices, &c.Long.Price)
	}
	for _, p := range prices {
		if p != nil && min(p.Input, p.Output, orInput(p.CacheRead, 0), orInput(p.CacheWrite, 0)) < 0 {
			return bad("has a negative price")
		}
	}
	return nil
}
