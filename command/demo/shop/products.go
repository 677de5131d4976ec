package shop

import "fmt"

// Product is a thing on sale.
type Product struct {
	ID    string
	Name  string
	Note  string
	Cents int
}

// Price is how a price is shown.
func Price(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// Products returns what the shop has, in its order.
func Products() []Product {
	return []Product{
		{"tea", "Green tea", "100 g, loose", 640},
		{"cup", "Cup", "Stoneware, 0.3 l", 1250},
		{"pot", "Teapot", "Cast iron, with a sieve", 4900},
		{"honey", "Honey", "500 g, lime blossom", 780},
		{"cake", "Lemon cake", "Baked this morning", 890},
		{"book", "A book", "To read with it", 1490},
	}
}

func productOf(id string) (Product, bool) {
	for _, p := range Products() {
		if p.ID == id {
			return p, true
		}
	}
	return Product{}, false
}
