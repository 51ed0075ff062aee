"""What conversations cost: tokens from the tools' own records, and money by a table of list prices.

Everything is computed on this machine; no price is ever fetched. What belongs to showing it is in the faces.
"""
