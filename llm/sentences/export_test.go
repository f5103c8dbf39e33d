package sentences

// Largest is the largest number that is multiplied with weights.
const Largest = largest

// Products are the sums of a row of weights times each of four rows, by the
// fastest way and by the one that every processor knows.
func Products(row string, four []int16) (fast, plain [4]int32) {
	c := quantised{n: block, size: len(row), whole: four, pairs: make([]int64, 2*len(row))}
	c.pair()
	c.multiply(row, 0, &fast)
	c.multiplyPairs(row, 0, &plain)
	return fast, plain
}

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
	c := tokenizer{vocabulary: m.vocabulary}
	return c.tokenize(text), nil
}

// WeightsName is the first line of the weights.
const WeightsName = weightsName

// ToldDirection is the compiled-in one.
func ToldDirection() []float32 { return toldDirection() }
