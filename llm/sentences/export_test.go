package sentences

// The parts that are tested on their own.
var (
	Multiply      = multiply
	MultiplyPlain = multiplyPlain
)

// Load reads other files than the compiled-in ones.
func Load(weights, vocabulary string) error {
	_, err := load(weights, vocabulary)
	return err
}

// Files are the compiled-in ones.
func Files() (weights, vocabulary string) { return weightsFile, vocabularyFile }

// Tokens is what a text is cut into.
func Tokens(text string) ([]uint16, error) {
	m, err := loaded()
	if err != nil {
		return nil, err
	}
	c := cutter{vocabulary: m.vocabulary}
	return c.cut(text), nil
}
