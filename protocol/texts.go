package protocol

import "github.com/holdfast-dev/holdfast/projector"

// Texts is how many bytes of each text that is open a reader has, by item.
type Texts map[string]int

// Next returns what a change adds to a text and the reader does not have. Open
// says that the reader has seen the text begin; what ends is whole, or void
// where the change withdraws it.
func (t Texts) Next(c projector.Change, text string) (piece string, open, ends bool) {
	sent, open := t[c.Item.ID]
	open = open || c.Op == projector.Added
	switch ends = c.Op == projector.Finished || c.Op == projector.Withdrawn; {
	case !open:
		return "", false, ends
	case c.Op == projector.Withdrawn:
		text = ""
	case ends:
		text = text[min(sent, len(text)):]
	}
	t[c.Item.ID] = sent + len(text)
	if ends {
		delete(t, c.Item.ID)
	}
	return text, true, ends
}
