package sentences

import "math"

// pass takes some texts through the model, all their tokens together: a row of
// weights is then read once for many tokens. It is used by one goroutine at a
// time and used again, so that a text costs no memory.
type pass struct {
	model  *model
	cutter cutter
	texts  []textSpan

	n      int       // rows that are worked on: tokens, and at last texts
	row    []float32 // n × what a layer works on
	side   []float32 // n × at most width: normalised, or said by others
	wide   []float32 // n × inner: what is looked for, found and said; or raised
	counts counts
	weight []float32 // that each token of a text has for one of them
}

// textSpan is where a text's tokens are, and where its vector goes.
type textSpan struct {
	start, end int
	vector     []float32
}

func newPass(m *model) *pass {
	return &pass{
		model:  m,
		cutter: cutter{vocabulary: m.vocabulary},
		row:    make([]float32, MaxTokens*width),
		side:   make([]float32, MaxTokens*width),
		wide:   make([]float32, MaxTokens*inner),
		counts: newCounts(),
		weight: make([]float32, MaxTokens),
	}
}

// reset forgets all texts, and lets go of their vectors.
func (p *pass) reset() {
	clear(p.texts)
	p.n, p.texts = 0, p.texts[:0]
}

// tokens is what a text is made of, valid until the next call; none if blank.
func (p *pass) tokens(text string) []uint16 { return p.cutter.cut(text) }

func (p *pass) fits(tokens []uint16) bool { return p.n+len(tokens) <= MaxTokens }

// add takes in one more text, which fits. Its vector is written by run.
func (p *pass) add(tokens []uint16, vector []float32) {
	p.texts = append(p.texts, textSpan{start: p.n, end: p.n + len(tokens), vector: vector})
	table := p.model.embedding
	for place, token := range tokens {
		row := p.row[p.n*narrow : (p.n+1)*narrow]
		at := p.model.places[place*narrow : (place+1)*narrow]
		whole, scale := table.row(int(token)), 2*table.scale[token]
		for i := range row {
			row[i] = float32(int8(whole[i]))*scale + at[i]
		}
		p.n++
	}
}

// run makes the vectors of all texts and forgets the texts.
func (p *pass) run() {
	for i := range p.model.layers {
		l := &p.model.layers[i]
		p.lookAround(l)
		p.raise(l)
		if i == len(p.model.layers)-1 {
			p.average()
		}
		p.lower(l)
	}
	p.counts.take(p.row[:p.n*width], width)
	p.model.top.times(p.side, &p.counts)
	for i, t := range p.texts {
		finish(t.vector, p.side[i*width:(i+1)*width])
	}
	p.reset()
}

// lookAround lets every token take in what others of its text say: the
// attention of a layer, with what was there before added.
func (p *pass) lookAround(l *layer) {
	in := l.in
	l.before.apply(p.side, p.row[:p.n*in])
	p.counts.take(p.side[:p.n*in], in)
	l.look.times(p.wide, &p.counts)
	for _, t := range p.texts {
		for head := range heads {
			p.listen(t, in, head)
		}
	}
	if l.widen.rows > 0 {
		p.counts.take(p.row[:p.n*in], in)
		l.widen.times(p.row, &p.counts)
	}
	p.counts.take(p.side[:p.n*in], in)
	l.said.times(p.wide, &p.counts)
	add(p.row[:p.n*width], p.wide)
}

// listen writes into side what the tokens of a text hear from one another, for
// one head. A row of wide is what its token looks for, what it is found by and
// what it says (query, key and value), each of width in.
func (p *pass) listen(t textSpan, in, head int) {
	size := in / heads
	at := func(token, which int) []float32 {
		start := token*3*in + which*in + head*size
		return p.wide[start : start+size]
	}
	scale := float32(1 / math.Sqrt(float64(size)))
	weight := p.weight[:t.end-t.start]
	for token := t.start; token < t.end; token++ {
		wanted := at(token, 0)
		for i := range weight {
			weight[i] = scale * dot(wanted, at(t.start+i, 1))
		}
		softmax(weight)
		heard := p.side[token*in+head*size:][:size]
		clear(heard)
		for i, w := range weight {
			addTimes(heard, w, at(t.start+i, 2))
		}
	}
}

// raise and lower work on each row alone, the feed-forward part of a layer:
// raise ends in the middle of it, lower adds the outcome to the row.
func (p *pass) raise(l *layer) {
	l.between.apply(p.side, p.row[:p.n*width])
	p.counts.take(p.side[:p.n*width], width)
	l.up.times(p.wide, &p.counts)
	raised := p.wide[:p.n*inner]
	for i, v := range raised {
		raised[i] = max(v, 0)
	}
}

func (p *pass) lower(l *layer) {
	p.counts.take(p.wide[:p.n*inner], inner)
	l.down.times(p.side, &p.counts)
	add(p.row[:p.n*width], p.side)
}

// average leaves one row for each text, the mean of its tokens. In the last
// layer this comes before lower, which is linear and has then less to do.
func (p *pass) average() {
	for i, t := range p.texts {
		mean(p.row, i, t, width)
		mean(p.wide, i, t, inner)
	}
	p.n = len(p.texts)
}

// mean makes row i of all the mean of the rows of a text. Row i is one of them
// or comes before them.
func mean(all []float32, i int, t textSpan, size int) {
	to := all[i*size : (i+1)*size]
	copy(to, all[t.start*size:])
	for token := t.start + 1; token < t.end; token++ {
		add(to, all[token*size:])
	}
	for j := range to {
		to[j] /= float32(t.end - t.start)
	}
}

// finish writes a vector of length 1.
func finish(vector, row []float32) {
	sum := 0.0
	for i, v := range row {
		v := math.Tanh(float64(v))
		vector[i] = float32(v)
		sum += v * v
	}
	length := float32(math.Sqrt(sum))
	for i := range vector {
		vector[i] /= length
	}
}
