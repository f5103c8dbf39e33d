// Package tiktoken counts tokens as OpenAI's models do. A program that imports
// it grows by 12 MB and takes some seconds longer to build for the first time;
// without it package memory estimates. Use Counter as the Config.Counter of a
// catalog.
package tiktoken

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"github.com/holdfast-dev/holdfast/session"
)

// Tokens besides the text of a message. Only the provider knows them exactly, and
// they change: these are OpenAI's published numbers for its chat models.
const (
	frame = 4 // of a message with its role, and of a tool call
	named = 1 // for the name of a message
	media = 1000
)

// Counter returns a counter for a model, and its name, which changes when its
// counts change. The model may have a provider, as in openai/gpt-4.1, or be the
// name of a vocabulary, o200k_base or cl100k_base. Text, tool calls and results
// are counted with the model's vocabulary; an image, a file or a sound counts as
// 1,000 tokens. For models with an unknown vocabulary ok is false.
//
// The first count with a vocabulary loads it, which takes up to 100 ms. A
// counter caches the counts of longer texts, because a conversation is counted
// again and again. It is safe for concurrent use.
func Counter(model string) (count func(session.Message) int, name string, ok bool) {
	v, ok := vocabularyOf(model)
	if !ok {
		return nil, "", false
	}
	c := &counter{vocabulary: v, seed: maphash.MakeSeed(), known: map[uint64]int{}}
	return c.message, "tiktoken/" + string(v.encoding) + "/1", true
}

// vocabulary is one tokenizer, loaded on first use.
type vocabulary struct {
	encoding tokenizer.Encoding
	load     func() (tokenizer.Codec, error)
}

func newVocabulary(e tokenizer.Encoding) vocabulary {
	return vocabulary{encoding: e, load: sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(e) })}
}

var (
	o200k  = newVocabulary(tokenizer.O200kBase)
	cl100k = newVocabulary(tokenizer.Cl100kBase)
)

// families lists the beginnings of model names. Nothing may follow, or a suffix
// after one of "-.:": gpt-4o is not of the family gpt-4.
var families = []struct {
	names []string
	vocabulary
}{
	{[]string{"gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "o1", "o3", "o4"}, o200k},
	{[]string{"gpt-4", "gpt-3.5", "gpt-35", "text-embedding-3", "text-embedding-ada"}, cl100k},
}

func vocabularyOf(model string) (vocabulary, bool) {
	for _, v := range []vocabulary{o200k, cl100k} {
		if model == string(v.encoding) {
			return v, true
		}
	}
	model = model[strings.LastIndexByte(model, '/')+1:]
	model = strings.TrimPrefix(model, "ft:") // fine-tuned models keep the vocabulary
	for _, f := range families {
		for _, name := range f.names {
			rest, ok := strings.CutPrefix(model, name)
			if ok && (rest == "" || strings.ContainsRune("-.:", rune(rest[0]))) {
				return f.vocabulary, true
			}
		}
	}
	return vocabulary{}, false
}

type counter struct {
	vocabulary
	seed maphash.Seed

	mu    sync.Mutex // guards known
	known map[uint64]int
}

func (c *counter) message(m session.Message) int {
	n := frame
	if m.Name != "" {
		n += named + c.text(m.Name)
	}
	for _, p := range m.Content {
		switch p.Type {
		case session.PartImage, session.PartFile, session.PartAudio:
			n += media
		default:
			n += c.text(p.Text) + c.text(string(p.Raw))
		}
	}
	for _, call := range m.ToolCalls {
		n += frame + c.text(call.Name) + c.text(string(call.Arguments))
	}
	if m.ToolResult != nil {
		n += c.text(m.ToolResult.ToolName) + c.text(m.ToolResult.Content)
	}
	return n
}

// The cache holds texts of at least minCached bytes, at most maxCached of them.
const (
	minCached = 64
	maxCached = 1 << 14
)

func (c *counter) text(s string) int {
	if len(s) < minCached {
		return c.tokens(s)
	}
	key := maphash.String(c.seed, s)
	c.mu.Lock()
	n, ok := c.known[key]
	c.mu.Unlock()
	if ok {
		return n
	}
	n = c.tokens(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCached {
		clear(c.known)
	}
	c.known[key] = n
	return n
}

// tokens counts a text. If the tokenizer fails, it estimates: a rough count is
// better than none.
func (v vocabulary) tokens(s string) int {
	if s == "" {
		return 0
	}
	codec, err := v.load()
	if err == nil {
		var n int
		if n, err = codec.Count(s); err == nil {
			return n
		}
	}
	return (len(s) + 3) / 4
}
