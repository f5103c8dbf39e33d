package sentences

import "math"

// batch runs the model on the tokens of several texts at once, so that each row
// of weights is read once for many tokens. One goroutine uses it at a time; it
// is reused to avoid allocations.
type batch struct {
	model     *model
	tokenizer tokenizer
	texts     []textSpan

	n         int       // rows: one per token, after average one per text
	row       []float32 // n × width of the layer
	side      []float32 // n × at most width: normalised rows or attention
	wide      []float32 // n × inner: queries, keys and values; or the inner layer
	quantised quantised
	weight    []float32 // attention weights of one token
}

// textSpan holds the rows of a text's tokens and its vector.
type textSpan struct {
	start, end int
	vector     []float32
}

func newBatch(m *model) *batch {
	return &batch{
		model:     m,
		tokenizer: tokenizer{vocabulary: m.vocabulary},
		row:       make([]float32, MaxTokens*width),
		side:      make([]float32, MaxTokens*width),
		wide:      make([]float32, MaxTokens*inner),
		quantised: newQuantised(),
		weight:    make([]float32, MaxTokens),
	}
}

// reset removes all texts.
func (p *batch) reset() {
	clear(p.texts)
	p.n, p.texts = 0, p.texts[:0]
}

// tokens returns the tokens of a text, valid until the next call; none if blank.
func (p *batch) tokens(text string) []uint16 { return p.tokenizer.tokenize(text) }

func (p *batch) fits(tokens []uint16) bool { return p.n+len(tokens) <= MaxTokens }

// add adds a text that fits. run writes its vector.
func (p *batch) add(tokens []uint16, vector []float32) {
	p.texts = append(p.texts, textSpan{start: p.n, end: p.n + len(tokens), vector: vector})
	table := p.model.embedding
	for position, token := range tokens {
		row := p.row[p.n*narrow : (p.n+1)*narrow]
		at := p.model.positions[position*narrow : (position+1)*narrow]
		whole, scale := table.row(int(token)), 2*table.scale[token]
		for i := range row {
			row[i] = float32(int8(whole[i]))*scale + at[i]
		}
		p.n++
	}
}

// run writes the vectors of all texts and resets the batch.
func (p *batch) run() {
	for i := range p.model.layers {
		l := &p.model.layers[i]
		p.attend(l)
		p.expand(l)
		if i == len(p.model.layers)-1 {
			p.average()
		}
		p.contract(l)
	}
	p.quantised.set(p.row[:p.n*width], width)
	p.model.top.times(p.side, &p.quantised)
	for i, t := range p.texts {
		finish(t.vector, p.side[i*width:(i+1)*width])
	}
	p.reset()
}

// attend is the attention of a layer, with its residual connection.
func (p *batch) attend(l *layer) {
	in := l.in
	l.before.apply(p.side, p.row[:p.n*in])
	p.quantised.set(p.side[:p.n*in], in)
	l.qkv.times(p.wide, &p.quantised)
	for _, t := range p.texts {
		for head := range heads {
			p.attendHead(t, in, head)
		}
	}
	if l.widen.rows > 0 {
		p.quantised.set(p.row[:p.n*in], in)
		l.widen.times(p.row, &p.quantised)
	}
	p.quantised.set(p.side[:p.n*in], in)
	l.project.times(p.wide, &p.quantised)
	add(p.row[:p.n*width], p.wide)
}

// attendHead writes the attention of one head between the tokens of a text into
// side. A row of wide has query, key and value, each of width in.
func (p *batch) attendHead(t textSpan, in, head int) {
	size := in / heads
	at := func(token, which int) []float32 {
		start := token*3*in + which*in + head*size
		return p.wide[start : start+size]
	}
	scale := float32(1 / math.Sqrt(float64(size)))
	weight := p.weight[:t.end-t.start]
	for token := t.start; token < t.end; token++ {
		query := at(token, 0)
		for i := range weight {
			weight[i] = scale * dot(query, at(t.start+i, 1))
		}
		softmax(weight)
		sum := p.side[token*in+head*size:][:size]
		clear(sum)
		for i, w := range weight {
			addTimes(sum, w, at(t.start+i, 2))
		}
	}
}

// expand and contract are the feed-forward part of a layer: expand computes the
// inner layer, contract adds the result to the row.
func (p *batch) expand(l *layer) {
	l.between.apply(p.side, p.row[:p.n*width])
	p.quantised.set(p.side[:p.n*width], width)
	l.up.times(p.wide, &p.quantised)
	expanded := p.wide[:p.n*inner]
	for i, v := range expanded {
		expanded[i] = max(v, 0)
	}
}

func (p *batch) contract(l *layer) {
	p.quantised.set(p.wide[:p.n*inner], inner)
	l.down.times(p.side, &p.quantised)
	add(p.row[:p.n*width], p.side)
}

// average leaves one row for each text, the mean of its tokens. In the last
// layer it comes before contract, which is linear and then has fewer rows.
func (p *batch) average() {
	for i, t := range p.texts {
		mean(p.row, i, t, width)
		mean(p.wide, i, t, inner)
	}
	p.n = len(p.texts)
}

// mean sets row i to the mean of a text's rows. Row i is one of them or comes
// before them.
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

// finish applies tanh and scales the vector to length 1.
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
