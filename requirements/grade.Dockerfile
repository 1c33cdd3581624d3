# A box to grade in, where the machine itself cannot: on a Mac, say. From the repository's root:
#     docker build -t tile-by-tile -f requirements/grade.Dockerfile .
#     docker run --rm --network none -v "$PWD:/class" tile-by-tile grade 2 /class/DOWNLOAD.zip \
#       --course /class/COURSE --out /class/RESULTS
FROM python:3.12-slim
WORKDIR /book
COPY . .
RUN pip install --no-cache-dir -e '.[grade]'
ENTRYPOINT ["python", "-m", "helpers"]
