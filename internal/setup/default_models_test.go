package setup

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm/catalog"
)

func TestDefaultModels_areKnownAndHaveAPrice(t *testing.T) {
	t.Parallel()
	c, err := catalog.New(catalog.Config{Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	for provider, model := range defaultModels {
		if card, ok := c.Card(model); !ok || card.Price == nil || !strings.HasPrefix(model, provider+"/") {
			t.Errorf("the model of %s is %s: %+v", provider, model, card)
		}
	}
}
